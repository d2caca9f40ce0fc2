"""The task of translation: parallel text, its vocabularies, a translation model, greedy BLEU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import torch
from torch import Tensor

from sharpbeam.models.module import TranslationModule
from sharpbeam.models.native import NativeModel
from sharpbeam.models.registry import TranslationConfig, find_architecture
from sharpbeam.options.schema import build, require
from sharpbeam.options.train import Recipe
from sharpbeam.output_layers.exact import exact_layer
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.train.checkpoint import Progress
from sharpbeam.train.data import Batch, ParallelData, read_directions
from sharpbeam.train.loss import output_loss, training_loss, word_frequency
from sharpbeam.train.vocabularies import Vocabularies
from sharpbeam.types import Ids, Request

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
        self._vocabularies = Vocabularies(pairs, recipe.vocabulary, self.options.seed, output, sorted(set(codes)))
        self.source, self.target = self._vocabularies.source, self._vocabularies.target
        facts = {"source_vocab_size": len(self.source), "target_vocab_size": len(self.target)} | recipe.model
        self.architecture = find_architecture(facts.pop("architecture", "recurrent"))
        tags = self._vocabularies.tags()
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
        self.longest = getattr(config, "max_positions", 0) or 1 << 20
        self.train_data = ParallelData(
            pairs, self.source, self.target, min(data.max_length, self.longest), [tags[code] for code in codes]
        )
        words = torch.tensor([token for _, target in self.train_data.items for token in (*target, self.train_data.eos)])
        self.frequency = word_frequency(words, len(self.target)).to(self.device)
        self.valid_data = ParallelData(
            self.valid_pairs, self.source, self.target, self.longest, [tags[code] for code in valid_codes]
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
        """Loss (nats for each target token, no smoothing) and greedy BLEU (sacreBLEU default)."""
        data = self.valid_data
        order = sorted(range(len(data.items)), key=lambda i: len(data.items[i][0]))
        batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        loss = self._validation_loss(weights, [data.batch(indices) for indices in batches])
        model = NativeModel(self.config, {name: value.cpu().numpy() for name, value in weights.items()})
        layer = exact_layer(*model.output())
        outputs = [""] * len(order)
        for indices in batches:
            sources = [np.array(data.items[i][0], np.int32) for i in indices]
            for i, tokens in zip(indices, greedy(model, layer, sources, self.longest), strict=True):
                outputs[i] = self.target.decode(tokens)
        references = [self.valid_pairs[place][1] for place in data.places]
        return {"valid_nll": loss, "bleu": sacrebleu.corpus_bleu(outputs, [references]).score}

    @torch.no_grad()
    def _validation_loss(self, weights: dict[str, Tensor], batches: Sequence[Batch]) -> float:
        """Nats for each target token of the batches."""
        model: TranslationModule = self.architecture.module(self.config).to(self.device)
        model.load_state_dict(weights)
        model.eval()
        nats, tokens = 0.0, 0
        for batch in batches:
            mask = None if batch.source_mask is None else batch.source_mask.to(self.device)
            hidden = model(batch.source.to(self.device), mask, batch.target.to(self.device))
            real = batch.label_mask.to(self.device)
            nats += float(output_loss(hidden[real], *model.output(), batch.label.to(self.device)[real])[1])
            tokens += int(real.sum())
        return nats / tokens

    def better(self, figures: dict[str, float], progress: Progress) -> bool:
        """Whether the BLEU is higher than any before."""
        best = progress.best_bleu
        progress.best_bleu = max(best, figures["bleu"])
        return figures["bleu"] > best

    def vocabularies(self) -> dict[str, bytes]:
        """One file, or two if the sides have their own."""
        return self._vocabularies.files()


def greedy(model: NativeModel, layer: RowLayer, sources: Sequence[Ids], longest: int) -> list[list[int]]:
    """Greedy translations of sources decoded together, at most twice their longest plus ten tokens, or `longest`."""
    run, answers = model.open(), [list[int]() for _ in sources]
    state = run.admit([Request(index, source) for index, source in enumerate(sources)])
    row, token = np.arange(len(sources), dtype=np.int32), np.full(len(sources), model.bos_id, np.int32)
    for _ in range(min(2 * max(map(len, sources)) + 10, longest)):
        hidden, state = run.step(row, state, token)
        token = layer.topk(hidden, 1).token[:, 0]
        live = token != model.eos_id
        row, state, token = row[live], state[live], token[live]
        if not len(row):
            break
        run.retain(state)
        for i, best in zip(row.tolist(), token.tolist(), strict=True):
            answers[i].append(best)
    return answers
