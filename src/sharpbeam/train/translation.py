"""The task of translation: parallel text in batches, its vocabularies, a translation model, greedy BLEU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear
from torch.nn.utils.rnn import pad_sequence

from sharpbeam.convert.firefox import check_facts
from sharpbeam.decoding.loop import beam_search
from sharpbeam.errors import InputError
from sharpbeam.models.module import TranslationModule
from sharpbeam.models.native import NativeModel
from sharpbeam.models.registry import TranslationConfig, find_architecture
from sharpbeam.options.decode import SearchOptions
from sharpbeam.options.schema import build, require
from sharpbeam.options.train import DataOptions, Recipe
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.text.lines import Pair, column_pairs, file_pairs
from sharpbeam.text.sentencepiece import SPECIAL_IDS
from sharpbeam.text.vocabulary import Vocabulary
from sharpbeam.train.checkpoint import Progress
from sharpbeam.train.loss import CHUNK, training_loss, word_frequency
from sharpbeam.train.report import say
from sharpbeam.train.task import TrainingTask
from sharpbeam.train.vocabularies import language_tags, translation_vocabularies
from sharpbeam.types import Request

BATCH = 256  # pairs of similar length that are validated at a time
BRANCH = 0.2  # of post-norm attention and feed-forward at the start, about DeepNet's beta^2 / alpha (Wang et al. 2022)


def read_pairs(
    files: tuple[str, ...], targets: tuple[str, ...], options: DataOptions, base: Path
) -> tuple[list[Pair], list[str]]:
    """(source, target) pairs of tab-separated or line-parallel files; `base` is the folder that paths start from.

    With data.languages those of both directions, and the language of each target.
    """
    if targets:
        return [pair for s, t in zip(files, targets, strict=True) for pair in file_pairs(base / s, base / t)], []
    pairs, codes = list[Pair](), list[str]()
    for name, languages in zip(files, options.languages or [""] * len(files), strict=True):
        columns = column_pairs(base / name, options.source_column, options.target_column)
        if not languages:
            pairs += columns
            continue
        first, second = languages.split("-")
        for one, other in columns:
            pairs += [(one, other), (other, one)]
            codes += [second, first]
    return pairs, codes


@dataclass(frozen=True)
class Batch:
    """Padded ids: source [B, S], target with bos in front [B, T], label = target with eos at the end [B, T]."""

    source: Tensor
    source_mask: Tensor | None  # [B, S] bool, None if nothing is padded
    target: Tensor
    label: Tensor


class ParallelData:
    """Encoded pairs. Sources begin with their tag, if any, and end in eos; targets have neither."""

    def __init__(
        self,
        pairs: list[Pair],
        source: Vocabulary,
        target: Vocabulary,
        max_length: int,
        tags: Sequence[int] = (),
        ids: Mapping[str, int] = SPECIAL_IDS,
    ) -> None:
        """Encode `pairs`; `tags` holds one token for each of them, or none. Pairs longer than `max_length` are left."""
        self.bos, self.eos, self.pad = (ids[f"{name}_id"] for name in ("bos", "eos", "pad"))
        self.items: list[tuple[list[int], list[int]]] = []
        self.places: list[int] = []  # place of each item in `pairs`
        for place, (text, translation) in enumerate(pairs):
            item = ([*tags[place : place + 1], *source.encode(text), self.eos], target.encode(translation))
            if len(item[0]) > 1 + bool(tags) and item[1] and max(len(item[0]), len(item[1]) + 1) <= max_length:
                self.items.append(item)
                self.places.append(place)
        if not self.items:
            raise InputError("no sentence pair is left after reading; check the columns and max_length.")
        self._lengths = np.array([(len(s), len(t) + 1) for s, t in self.items])

    def epoch(self, batch_tokens: int, seed: int, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """All pairs once, similar lengths together, batches in random order; (seed, epoch) fixes everything.

        The first `skip` batches are left out.
        """
        random = np.random.default_rng([seed, epoch])
        order = random.permutation(len(self.items))
        order = order[np.lexsort((self._lengths[order, 1], self._lengths[order, 0]))]
        batches, widest = list[list[int]]([[]]), 0
        for index in order.tolist():
            length = int(self._lengths[index].max())
            widest = max(widest, length)
            if batches[-1] and widest * (len(batches[-1]) + 1) > batch_tokens:
                batches.append([])
                widest = length
            batches[-1].append(index)
        for i in random.permutation(len(batches))[skip:]:
            yield self.batch(batches[i])

    def batch(self, indices: list[int]) -> Batch:
        """Pad the pairs `indices` to one batch."""
        items = [self.items[i] for i in indices]
        source = self._padded([source for source, _ in items])
        label = self._padded([[*target, self.eos] for _, target in items])
        target = self._padded([[self.bos, *target] for _, target in items])
        source_mask = source != self.pad
        return Batch(source, None if bool(source_mask.all()) else source_mask, target, label)

    def _padded(self, sequences: list[list[int]]) -> Tensor:
        return pad_sequence([torch.tensor(sequence) for sequence in sequences], True, self.pad)


def keep_zero(module: nn.Module, parameter: nn.Parameter, rows: slice) -> None:
    """Make `rows` of a parameter of `module` zero, also after weights are loaded.

    Their gradients are zero: Adam leaves such a number as it is.
    """

    def zero(*_: object) -> None:
        parameter.data[rows] = 0.0

    def without(gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        gradient[rows] = 0.0
        return gradient

    zero()
    module.register_load_state_dict_post_hook(zero)  # type: ignore[no-untyped-call]
    parameter.register_hook(without)  # type: ignore[no-untyped-call]


class TranslationTask(TrainingTask):
    """Training of the translation models."""

    measure = ("bleu", "validation BLEU, greedy")

    def __init__(self, recipe: Recipe, base: Path, output: Path) -> None:
        """Read the text; vocabularies are made once, a resumed run reads them back from `output`."""
        self.options = recipe.train
        self.device = torch.device(self.options.device)
        data = recipe.data
        pairs, codes = read_pairs(data.train, data.train_target, data, base)
        self.valid_pairs, valid_codes = read_pairs(data.valid, data.valid_target, data, base)
        languages = sorted(set(codes))
        sides = translation_vocabularies(pairs, recipe.vocabulary, self.options.seed, output, languages)
        self.vocabularies = {name: vocabulary.serialized for name, vocabulary in sides.items()}
        both = list(sides.values())
        self.source, self.target = both[0], both[-1]
        facts = {"source_vocab_size": len(self.source), "target_vocab_size": len(self.target)} | recipe.model
        self.architecture = find_architecture(facts.pop("architecture", "recurrent"))
        tags = language_tags(self.source, languages)
        if tags:
            transformer = self.architecture.name == "transformer"
            require(transformer, "data.languages", data.languages, "empty unless model.architecture is 'transformer'")
            facts |= {"languages": tags, "source_tag": "target"}
        config: Any = build(self.architecture.config, facts, "recipe: model")
        for name, needed in {"source_eos": True, "source_begin": (), "target_begin": (), **SPECIAL_IDS}.items():
            put = getattr(config, name, needed)
            require(put == needed, f"model.{name}", put, f"{needed}, as training has it")
        if self.options.exportable:
            check_facts(config, len(self.target))
        self.config: TranslationConfig = config
        self.longest = getattr(config, "max_positions", 0) or 1 << 20
        self.train_data = ParallelData(
            pairs, self.source, self.target, min(data.max_length, self.longest), [tags[code] for code in codes]
        )
        words = torch.tensor([token for _, target in self.train_data.items for token in (*target, config.eos_id)])
        self.frequency = word_frequency(words, len(self.target)).to(self.device)
        self.valid_data = ParallelData(
            self.valid_pairs, self.source, self.target, self.longest, [tags[code] for code in valid_codes]
        )
        for name, kept, given in (("train", self.train_data, pairs), ("valid", self.valid_data, self.valid_pairs)):
            if left := len(given) - len(kept.items):
                say(f"data.{name}: {len(kept.items)} pairs are kept; {left} are left out, too long or empty.")

    def module(self) -> TranslationModule:
        """A fresh model."""
        module: TranslationModule = self.architecture.module(self.config, self.options.dropout)
        if getattr(self.config, "norm", "pre") == "post":  # with full branches it learns late to look at the source
            for name, parameter in module.named_parameters():
                if name.endswith((".out.weight", ".down.weight")):
                    parameter.data *= BRANCH
        if self.options.exportable:
            keep_zero(module, module.target_embedding, slice(self.config.bos_id, self.config.bos_id + 1))
            for name, parameter in module.named_parameters():
                if name.endswith("ssru.cell.bias"):
                    keep_zero(module, parameter, slice(len(parameter) // 2))  # of the candidates
        return module

    def epoch(self, epoch: int, skip: int) -> Iterator[Batch]:
        """All pairs once, in an order that seed and epoch fix."""
        return self.train_data.epoch(self.options.batch_tokens, self.options.seed, epoch, skip)

    def loss(self, model: TranslationModule, batch: Batch) -> tuple[Tensor, int]:
        """Sums over the target tokens of a batch, and their number."""
        options = self.options
        with torch.autocast(self.device.type, torch.bfloat16, enabled=options.precision == "bfloat16"):
            hidden, label = self._hidden(model, batch)
        figures = training_loss(hidden.float(), *model.output(), label, self.frequency, options)
        balance = model.balance_loss()
        if balance is not None:
            added = options.expert_balance * label.numel() * balance
            figures = torch.cat([figures[:1] + added, figures[1:]])  # the others are for the log
        return figures, label.numel()

    def _hidden(self, model: TranslationModule, batch: Batch) -> tuple[Tensor, Tensor]:
        """The hidden vectors [N, D] of the target positions of a batch that are no padding, and their labels [N]."""
        mask = None if batch.source_mask is None else batch.source_mask.to(self.device)
        hidden = model(batch.source.to(self.device), mask, batch.target.to(self.device))
        label = batch.label.to(self.device)
        real = label != self.train_data.pad
        return hidden[real], label[real]

    def validate(self, weights: dict[str, Tensor]) -> dict[str, float]:
        """Loss (nats for each target token, no smoothing) and greedy BLEU (sacreBLEU default)."""
        data, loss = self.valid_data, self._validation_loss(weights)
        if not isfinite(loss):  # such a model translates nothing
            return {"valid_nll": loss, "bleu": 0.0}
        model = NativeModel(self.config, {name: value.cpu().numpy() for name, value in weights.items()})
        layer = ExactLayer.build(*model.output())
        requests = [
            Request(i, np.array(source, np.int32), max_length=min(2 * len(source) + 10, self.longest))
            for i, (source, _) in enumerate(data.items)
        ]
        options = SearchOptions(beam_size=1, max_length=max(request.max_length for request in requests))
        run = beam_search(model, layer, requests, options, self.options.batch_tokens)
        texts = {index: self.target.decode(best.tokens) for index, (best, *_) in run}
        references = [self.valid_pairs[place][1] for place in data.places]
        bleu = sacrebleu.corpus_bleu([texts[i] for i in range(len(references))], [references]).score
        return {"valid_nll": loss, "bleu": bleu}

    @torch.no_grad()
    def _validation_loss(self, weights: dict[str, Tensor]) -> float:
        """Nats for each target token of the validation text."""
        model: TranslationModule = self.architecture.module(self.config).to(self.device)
        model.load_state_dict(weights)
        model.eval()
        order = sorted(range(len(self.valid_data.items)), key=lambda i: len(self.valid_data.items[i][0]))
        nats, tokens = 0.0, 0
        for start in range(0, len(order), BATCH):
            hidden, label = self._hidden(model, self.valid_data.batch(order[start : start + BATCH]))
            for some, right in zip(torch.split(hidden, CHUNK), torch.split(label, CHUNK), strict=True):
                nats += float(cross_entropy(linear(some, *model.output()), right, reduction="sum"))
            tokens += len(label)
        return nats / tokens

    def better(self, figures: dict[str, float], progress: Progress) -> bool:
        """Whether the BLEU is higher than any before, or as high with fewer nats, as in a plateau at 0."""
        now = figures["bleu"], -figures["valid_nll"]
        if better := now > (progress.best_bleu, -progress.best_nll):
            progress.best_bleu, progress.best_nll = figures["bleu"], figures["valid_nll"]
        return better
