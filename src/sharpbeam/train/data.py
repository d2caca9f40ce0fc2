"""Parallel text for training: reading, encoding, and batches of a token budget in a reproducible order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sharpbeam.errors import InputError
from sharpbeam.options.train import DataOptions
from sharpbeam.text.pairs import column_pairs, file_pairs
from sharpbeam.text.sentencepiece import BOS_ID, EOS_ID, PAD_ID
from sharpbeam.text.vocabulary import Vocabulary


def check_files(options: DataOptions, base: Path) -> None:
    """Raise InputError for a file of text that is not there; `base` is the folder that paths start from."""
    for name in (*options.train, *options.valid, *options.train_target, *options.valid_target):
        if not (base / name).is_file():
            raise InputError(
                f"{base / name} is not there. The recipe names the text {name!r}: give the folder that it is in with "
                "--data, or change the recipe's table [data]. recipes/README.md says where the project's text is from."
            )


def read_pairs(
    files: tuple[str, ...], targets: tuple[str, ...], options: DataOptions, base: Path
) -> list[tuple[str, str]]:
    """(source, target) pairs of tab-separated or line-parallel files; `base` is the folder that paths start from."""
    if targets:
        return [pair for s, t in zip(files, targets, strict=True) for pair in file_pairs(base / s, base / t)]
    columns = (options.source_column, options.target_column)
    return [pair for name in files for pair in column_pairs(base / name, *columns)]


def read_directions(
    files: tuple[str, ...], targets: tuple[str, ...], options: DataOptions, base: Path
) -> tuple[list[tuple[str, str]], list[str]]:
    """The pairs of `read_pairs`; with data.languages those of both directions, and the language of each target."""
    if not options.languages:
        return read_pairs(files, targets, options, base), []
    pairs, codes = [], []
    for name, languages in zip(files, options.languages, strict=True):
        first, second = languages.split("-")
        for one, other in column_pairs(base / name, options.source_column, options.target_column):
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
    label_mask: Tensor  # [B, T] bool


class ParallelData:
    """Encoded pairs. Sources begin with their tag, if any, and end in eos; targets have neither."""

    def __init__(
        self,
        pairs: list[tuple[str, str]],
        source: Vocabulary,
        target: Vocabulary,
        max_length: int,
        tags: Sequence[int] = (),
    ) -> None:
        """Encode `pairs`; `tags` holds one token for each of them, or none. Pairs longer than `max_length` are left."""
        self.bos, self.eos, self.pad = BOS_ID, EOS_ID, PAD_ID
        self.items: list[tuple[list[int], list[int]]] = []
        self.places: list[int] = []  # place of each item in `pairs`
        for place, (text, translation) in enumerate(pairs):
            item = ([*tags[place : place + 1], *source.encode(text), EOS_ID], target.encode(translation))
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
        batches: list[list[int]] = []
        current: list[int] = []
        widest = 0
        for index in order.tolist():
            longer = max(widest, int(self._lengths[index].max()))
            if current and longer * (len(current) + 1) > batch_tokens:
                batches.append(current)
                current, longer = [], int(self._lengths[index].max())
            current.append(index)
            widest = longer
        batches.append(current)
        for i in random.permutation(len(batches))[skip:]:
            yield self.batch(batches[i])

    def batch(self, indices: list[int]) -> Batch:
        """Pad the pairs `indices` to one batch."""
        sources = [self.items[i][0] for i in indices]
        targets = [self.items[i][1] for i in indices]
        source = self._pad(sources)
        label = self._pad([[*t, self.eos] for t in targets])
        target = self._pad([[self.bos, *t] for t in targets])
        source_mask = source != self.pad
        return Batch(source, None if bool(source_mask.all()) else source_mask, target, label, label != self.pad)

    def _pad(self, sequences: list[list[int]]) -> Tensor:
        width = max(map(len, sequences))
        return torch.tensor([s + [self.pad] * (width - len(s)) for s in sequences])
