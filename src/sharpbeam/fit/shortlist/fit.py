"""A shortlist from sentence pairs, and the share of held-out translations that it covers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sharpbeam.errors import InputError
from sharpbeam.fit.shortlist.alignment import Translations, align
from sharpbeam.options.fit import ShortlistOptions
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.text.pairs import Pair
from sharpbeam.text.vocabulary import Vocabulary
from sharpbeam.types import Ids

LONGEST = 200  # tokens of a sentence that are read
HELD_OUT = 100  # one pair in this many is not fitted on
MOST_CELLS = 400_000_000  # pairs of tokens that occur in one pair of sentences, in all: 4 bytes each


@dataclass
class PairSet:
    """Sentence pairs as ids, without special tokens."""

    sources: list[Ids] = field(default_factory=list)  # [S] each
    targets: list[Ids] = field(default_factory=list)  # [T] each

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class Coverage:
    """The share of translations that a shortlist covers, on sentence pairs that it was not fitted on."""

    pairs: int
    words: float  # share of the target tokens that are in the set of their sentence
    average_set: float  # tokens in the set of a sentence


def read_pairs(
    pairs: Iterable[Pair],
    origin: Path,
    source: Vocabulary,
    target: Vocabulary,
    most: int,
    progress: Callable[[int], None],
) -> tuple[PairSet, PairSet]:
    """The first `most` pairs with tokens on both sides, or as many as memory allows: to fit on, and held out.

    `progress` is called with the number of new pairs. Raises InputError where the file `origin` had no pair.
    """
    fit, held_out, cells = PairSet(), PairSet(), 0
    for left, right in pairs:
        s = np.array(source.encode(left)[:LONGEST], np.int32)
        t = np.array(target.encode(right)[:LONGEST], np.int32)
        if not len(s) or not len(t):
            continue
        part = held_out if len(fit) % HELD_OUT == HELD_OUT - 1 and len(held_out) * HELD_OUT < len(fit) else fit
        part.sources.append(s)
        part.targets.append(t)
        progress(1)
        cells += (len(s) + 1) * len(t)
        if len(fit) + len(held_out) >= most or cells >= MOST_CELLS:
            break
    if not len(fit):
        raise InputError(f"{origin} has no sentence pair with text on both sides; give more text.")
    return fit, held_out


def fit_pairs(
    pairs: PairSet, source: Vocabulary, target: Vocabulary, options: ShortlistOptions, progress: Callable[[int], None]
) -> Shortlist:
    """The likeliest translations of each source token by alignment, and the most frequent target tokens of `pairs`.

    `progress` is called with 1 after each round of alignment.
    """
    translations = align(pairs.sources, pairs.targets, len(source), options.rounds, progress)
    number = np.bincount(np.concatenate(pairs.targets), minlength=len(target))
    frequent = np.argsort(-number, kind="stable")[: options.frequent]
    frequent = frequent[number[frequent] > 0]
    always = {*frequent.tolist(), *target.special_ids.values()}
    return shortlist_of(translations, len(source), options.translations, always)


def shortlist_of(translations: Translations, source_vocab: int, most: int, always: Collection[int]) -> Shortlist:
    """The `most` likeliest translations of each source token, ties by lower id, and `always`, which is in every set.

    Function words are likely translations of everything (they are often near), and frequent. They are in every set
    anyway, and would only take the places of others in a list.
    """
    order = np.lexsort((translations.target, -translations.probability, translations.source))
    order = order[~np.isin(translations.target[order], list(always))]
    number = np.bincount(translations.source[order], minlength=source_vocab)
    place = np.arange(len(order)) - np.repeat(np.cumsum(number) - number, number)  # in the list of its source token
    likeliest = order[place < most]
    start = np.append(0, np.cumsum(np.minimum(number, most))).astype(np.int32)
    return Shortlist(np.array(sorted(always), np.int32), start, translations.target[likeliest])


def coverage(shortlist: Shortlist, pairs: PairSet) -> Coverage | None:
    """The coverage of `pairs`; None if there are none."""
    if not len(pairs):
        return None
    size = inside = 0
    for source, target in zip(pairs.sources, pairs.targets, strict=True):
        tokens = shortlist.tokens(source)
        size += len(tokens)
        inside += int(np.isin(target, tokens).sum())
    return Coverage(len(pairs), inside / sum(map(len, pairs.targets)), size / len(pairs))
