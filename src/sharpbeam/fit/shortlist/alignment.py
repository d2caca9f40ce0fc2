"""Word alignment by IBM model 1 (Brown et al. 1993, section 4.2), fitted by expectation and maximisation.

Each target token is the translation of one token of the source sentence, or of the empty token, all equally likely:
P(t_j = w) = sum over the tokens s of the source, the empty one included, of t(w | s) / (S + 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sharpbeam.types import Ids, Scores

CELLS = 1 << 21  # pairs of tokens that are computed with at a time: bounds memory, next to 4 bytes for each


@dataclass(frozen=True)
class Translations:
    """t(target | source) of all pairs of tokens that occur in one pair of sentences, sorted by source, then target."""

    source: Ids  # [n]
    target: Ids  # [n]
    probability: Scores  # [n]; those of one source token sum to 1


@dataclass(frozen=True)
class _Cells:
    """Some sentence pairs: a cell for each target position and each token of its source."""

    entry: NDArray[np.int64]  # [L] indices of the different pairs of tokens in the table
    which: Ids  # [n] the pair of tokens of each cell, as an index into `entry`
    width: NDArray[np.int64]  # [positions] cells of each target position, which follow each other


def align(
    sources: Sequence[Ids], targets: Sequence[Ids], source_vocab: int, rounds: int, progress: Callable[[int], None]
) -> Translations:
    """Fit t(target | source) on sentence pairs, ids [S] and [T] each, in `rounds` rounds, from a uniform start.

    Source ids are below `source_vocab`. Takes 4 bytes for each pair of tokens that occur in one pair of sentences.
    `progress` is called with 1 after each round.
    """
    keys, cells = _collect(sources, targets, source_vocab)
    source = (keys >> 32).astype(np.int32)
    table = np.ones(len(keys))
    for _ in range(rounds):
        count = np.zeros(len(keys))
        for part in cells:
            likely = table[part.entry][part.which]
            first = np.cumsum(part.width) - part.width
            share = likely / np.add.reduceat(likely, first).repeat(part.width)  # P(aligned | both sentences)
            count[part.entry] += np.bincount(part.which, share, len(part.entry))
        total = np.bincount(source, count, source_vocab + 1)
        table = count / np.maximum(total, np.finfo(float).tiny)[source]
        progress(1)
    real = source < source_vocab  # without the empty token
    return Translations(source[real], keys[real].astype(np.int32), table[real])


def _collect(sources: Sequence[Ids], targets: Sequence[Ids], empty: int) -> tuple[NDArray[np.int64], list[_Cells]]:
    """The different pairs of tokens as source << 32 | target, ascending, and the cells of all sentence pairs."""
    size = np.array([(len(s) + 1) * len(t) for s, t in zip(sources, targets, strict=True)], np.int64)
    parts: list[tuple[NDArray[np.int64], Ids, NDArray[np.int64]]] = []
    for part in np.split(np.arange(len(size)), _cuts(size)):
        pairs = [i for i in part.tolist() if size[i]]
        if not pairs:
            continue
        keys = np.concatenate([_keys(sources[i], targets[i], empty) for i in pairs])
        local, which = np.unique(keys, return_inverse=True)
        width = np.repeat([len(sources[i]) + 1 for i in pairs], [len(targets[i]) for i in pairs])
        parts.append((local, which.ravel().astype(np.int32), width))
    every = np.unique(np.concatenate([np.empty(0, np.int64), *(local for local, _, _ in parts)]))
    return every, [_Cells(np.searchsorted(every, local), which, width) for local, which, width in parts]


def _cuts(size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Indices to cut at, so that a part has about CELLS cells."""
    number = np.cumsum(size) // CELLS
    return np.flatnonzero(np.diff(number)) + 1


def _keys(source: Ids, target: Ids, empty: int) -> NDArray[np.int64]:
    """[T (S + 1)] the pairs of tokens of one sentence pair, by target position."""
    words = np.append(source, empty).astype(np.int64) << 32
    return (words[None, :] | target.astype(np.int64)[:, None]).ravel()
