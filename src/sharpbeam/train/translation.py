"""The task of translation: parallel text, its vocabularies, a translation model, greedy BLEU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sacrebleu
import torch
from torch import Tensor

from sharpbeam.models.registry import TranslationConfig, find_architecture
from sharpbeam.models.torch.module import TranslationModule
from sharpbeam.options.schema import build, require
from sharpbeam.options.train import Recipe
from sharpbeam.text.vocabulary import Vocabulary
from sharpbeam.train.checkpoint import Progress
from sharpbeam.train.data import Batch, ParallelData, read_directions
from sharpbeam.train.loss import output_loss, training_loss, word_frequency
from sharpbeam.train.vocabularies import Vocabularies

BATCH = 256  # pairs of similar length that are validated at a time


class TranslationTask:
    """`train.task.TrainingTask` for the translation models."""

    measure = ("bleu", "validation BLEU, greedy")

    def __init__(self, recipe: Recipe, base: Path, output: Path) -> None:
        """Read the text; vocabularies are made once, a resumed run reads them back from `output`."""
        self.recipe, self.options, self.output = recipe, recipe.train, output
        self.device = torch.device(self.options.device)
        data = recipe.data
        pairs, codes = read_directions(data.train, data.train_target, data, base)
        self.valid_pairs, valid_codes = read_directions(data.valid, data.valid_target, data, base)
        self._made = Vocabularies(pairs, recipe.vocabulary, self.options.seed, output, sorted(set(codes)))
        self.source, self.target = self._made.source, self._made.target
        facts = {"source_vocab_size": len(self.source), "target_vocab_size": len(self.target)} | recipe.model
        self.architecture = find_architecture(facts.pop("architecture", "recurrent"))
        tags = self._made.tags()
        if tags:
            transformer = self.architecture.name == "transformer"
            require(transformer, "data.languages", data.languages, "empty unless model.architecture is 'transformer'")
            facts |= {"languages": tags, "source_tag": "target"}
        config: Any = build(self.architecture.config, facts, "recipe: model")
        require(getattr(config, "source_eos", True), "model.source_eos", False, "true, which training puts there")
        for name in ("source_begin", "target_begin"):
            put = getattr(config, name, ())
            require(not put, f"model.{name}", put, "empty, for training puts nothing there")
        self.config: TranslationConfig = config
        longest = getattr(config, "max_positions", 0) or 1 << 20
        self.train_data = ParallelData(
            pairs, self.source, self.target, min(data.max_length, longest), [tags[code] for code in codes]
        )
        words = torch.tensor([token for _, target in self.train_data.items for token in (*target, self.train_data.eos)])
        self.frequency = word_frequency(words, len(self.target)).to(self.device)
        self.valid_data = ParallelData(
            self.valid_pairs, self.source, self.target, longest, [tags[code] for code in valid_codes]
        )

    def module(self) -> TranslationModule:
        """A fresh model."""
        module: TranslationModule = self.architecture.module(self.config, self.options.dropout)
        return module

    def epoch(self, epoch: int, skip: int) -> Iterator[Batch]:
        """All pairs once, in an order that seed and epoch fix."""
        return self.train_data.epoch(self.options.batch_tokens, self.options.seed, epoch, skip)

    def loss(self, model: TranslationModule, batch: Batch) -> tuple[Tensor, int]:
        """Sums over the target tokens of a batch, and their number."""
        options = self.options
        low = options.precision == "bfloat16"
        mask = None if batch.source_mask is None else batch.source_mask.to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=low):
            hidden = model(batch.source.to(self.device), mask, batch.target.to(self.device))
        keep = batch.label_mask.to(self.device)
        label = batch.label.to(self.device)[keep]
        figures = training_loss(hidden.float()[keep], *model.output(), label, self.frequency, options)
        balance = model.balance_loss()
        if balance is not None:
            added = options.expert_balance * label.numel() * balance
            figures = torch.cat([figures[:1] + added, figures[1:]])  # the others are for the log
        return figures, label.numel()

    def carried(self) -> dict[str, Tensor]:
        """Nothing: sentences stand alone."""
        return {}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Nothing is carried."""

    def validate(self, weights: dict[str, Tensor]) -> dict[str, float]:
        """Loss and greedy BLEU."""
        model = self.architecture.module(self.config).to(self.device)
        model.load_state_dict(weights)
        loss, bleu = validate(model.eval(), self.valid_data, self.valid_pairs, self.target, self.device)
        return {"valid_nll": loss, "bleu": bleu}

    def better(self, figures: dict[str, float], progress: Progress) -> bool:
        """Whether the BLEU is higher than any before."""
        best = progress.best_bleu
        progress.best_bleu = max(best, figures["bleu"])
        return figures["bleu"] > best

    def vocabularies(self) -> dict[str, bytes]:
        """One file, or two if the sides have their own."""
        return self._made.files()


@torch.no_grad()
def validate(
    model: TranslationModule,
    data: ParallelData,
    pairs: list[tuple[str, str]],
    vocabulary: Vocabulary,
    device: torch.device,
) -> tuple[float, float]:
    """Loss (nats for each target token, no smoothing) and greedy BLEU (sacreBLEU default) of `model` on `data`."""
    order = sorted(range(len(data.items)), key=lambda i: len(data.items[i][0]))
    nats, words = 0.0, 0
    outputs = [""] * len(order)
    for start in range(0, len(order), BATCH):
        indices = order[start : start + BATCH]
        batch = data.batch(indices)
        mask = None if batch.source_mask is None else batch.source_mask.to(device)
        hidden = model(batch.source.to(device), mask, batch.target.to(device))
        keep = batch.label_mask.to(device)
        nats += float(output_loss(hidden[keep], *model.output(), batch.label.to(device)[keep])[1])
        words += int(keep.sum())
        for index, ids in zip(indices, greedy(model, batch, device), strict=True):
            outputs[index] = vocabulary.decode(ids)
    references = [pairs[place][1] for place in data.kept]
    return nats / words, sacrebleu.corpus_bleu(outputs, [references]).score


def greedy(model: TranslationModule, batch: Batch, device: torch.device) -> list[list[int]]:
    """Greedy translations of a batch, at most twice the source length plus ten tokens."""
    config = model.config
    mask = None if batch.source_mask is None else batch.source_mask.to(device)
    memory, state = model.encode(batch.source.to(device), mask)
    weight, bias = model.output()
    token = torch.full((len(batch.source),), config.bos_id, device=device)
    ended = torch.zeros_like(token, dtype=torch.bool)
    tokens = []
    for _ in range(min(2 * batch.source.shape[1] + 10, model.longest)):
        hidden, state, _ = model.step(token, state, memory)
        token = torch.addmm(bias, hidden, weight.t()).argmax(1)
        ended |= token == config.eos_id
        if bool(ended.all()):
            break
        tokens.append(torch.where(ended, config.eos_id, token))
    if not tokens:
        return [[] for _ in range(len(token))]
    return [[t for t in row if t != config.eos_id] for row in torch.stack(tokens, 1).tolist()]
