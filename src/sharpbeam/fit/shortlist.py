"""`fit_shortlist`: sentence pairs in, the shortlist of a model folder out.

Tokens are aligned by IBM model 1 (Brown et al. 1993, section 4.2), fitted by expectation and maximization. Each target
token is the translation of one token of the source sentence, or of the empty token, all equally likely:
P(t_j = w) = sum over the tokens s of the source, the empty one included, of t(w | s) / (S + 1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam.decoding.loading import LoadedModel, folder_to_fill, load_model
from sharpbeam.errors import InputError, OptionError, OutputError
from sharpbeam.fit.collect import distinct
from sharpbeam.fit.fallback_test import FallbackTestFit, fit_fallback_test
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.texts import Texts, directed_texts
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.fit import ShortlistOptions
from sharpbeam.options.keywords import ShortlistKeywords, Unpack
from sharpbeam.options.schema import changed, require
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.storage.artifacts import present_artifacts
from sharpbeam.text.lines import Pair, check_readable, column_pairs, is_standard_input
from sharpbeam.text.vocabulary import Vocabulary
from sharpbeam.types import Ids, Scores

ENOUGH = 0.95  # share of held-out target tokens: Firefox's shortlists cover more
LEAST_KNOWN = 0.1  # share of the source tokens that must occur in the pairs
LONGEST = 200  # tokens of a sentence that are read
HELD_OUT = 100  # one pair in this many is not fitted on
MOST_CELLS = 400_000_000  # pairs of tokens that occur in one pair of sentences, in all: 4 bytes each
CELLS = 1 << 21  # pairs of tokens that are computed with at a time: bounds memory, next to 4 bytes for each
EncodedPairs = list[tuple[Ids, Ids]]  # of sentences: source [S] and target [T], without special tokens
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class ShortlistFit:
    """The shortlist of a fit."""

    folder: Path  # the model's, which it was written to
    shortlist: Shortlist
    facts: dict[str, Any]  # as in shortlist.json

    def summary(self) -> str:
        """Sizes, and the share of held-out translations that is covered."""
        start = self.shortlist.start
        known = int((start[1:] > start[:-1]).sum())
        text = f"{self.folder}: shortlist with translations of {known} of {len(start) - 1} source tokens, "
        text += f"{len(self.shortlist.always)} tokens in every set."
        if held_out := self.facts.get("held_out"):
            text += (
                f"\nOf {held_out['pairs']} pairs that it was not fitted on, {held_out['words']:.2%} of the target "
                f"tokens are in the set of their sentence, which has {held_out['average_set']:.0f} tokens on average."
            )
            if held_out["words"] < ENOUGH:
                text += " That is too few: translations will change. Fit it on more pairs, 100,000 or so."
        return text


def fit_shortlist(
    model: str | Path,
    *,
    pairs: str | Path | None = None,
    text: Texts = (),
    source_column: int = 0,
    target_column: int = 1,
    overwrite: bool = False,
    fidelity: float = 0.0,
    options: ShortlistOptions | None = None,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Listener | None = None,
    **keywords: Unpack[ShortlistKeywords],
) -> ShortlistFit | FallbackTestFit:
    """Fit the shortlist of a translation model: the target tokens that each source sentence may be translated with.

    The set of a sentence is the likeliest translations of each of its tokens, found by word alignment (IBM model 1),
    and the most frequent tokens. Each sentence has its own set, so its translation does not depend on its neighbors.
    What a set lacks cannot be in the translation.

    `model` is a model folder, which the shortlist is written to. `pairs` is a file of tab-separated sentence pairs (.gz
    too) with `source_column` and `target_column` counted from 0. `overwrite` replaces a shortlist that the model has.
    With a `fidelity`, the fallback test of the new shortlist, or of the one that the model has, is fitted to `text`
    (`fit_fallback_test`). `progress` is called with reports. The fields of ShortlistOptions may be given by name
    (`translations=50`) and change `options`.

    Raises OptionError for options that do not fit together or the model, InputError for files that cannot be read,
    ModelError for a model that cannot be read, OutputError for a shortlist that is there, and InputError if less than a
    tenth of the source tokens occur in the pairs: then nothing is written.
    """
    options = changed(options or ShortlistOptions(), keywords, "fit_shortlist")
    require(0 <= fidelity < 1, "fidelity", fidelity, "0 or more and below 1")
    require(bool(fidelity) == bool(text), "fidelity", fidelity, "above 0 with text, to measure it on, and 0 without")
    new = None
    if pairs is None and not fidelity:
        raise OptionError("give pairs, or text with a fidelity.")
    for name, column in (("source_column", source_column), ("target_column", target_column)):
        require(column >= 0, name, column, "0 or more")
    if pairs is not None:
        path = Path(pairs)
        require(not is_standard_input(path), "pairs", pairs, "the name of a file")
        check_readable([path])
        folder = folder_to_fill(str(model))
        if "shortlist" in present_artifacts(folder) and not overwrite:
            raise OutputError(f"{folder} has a shortlist already; give --overwrite to replace it.")
        loaded = load_model(folder, machine, "translation")
        directed_texts(text, loaded.language_tags)  # raises before the work
        shortlist, figures = _align(path, (source_column, target_column), loaded, options, Reporter(progress))
        file = {"name": path.name, "bytes": path.stat().st_size}
        facts = {"from": "pairs", "file": file, "options": asdict(options)} | figures
        if not fidelity:
            loaded.artifacts.save("shortlist", shortlist, facts)
            return ShortlistFit(folder, shortlist, facts)
        new = shortlist, facts
    return fit_fallback_test(model, text, fidelity=fidelity, new=new, machine=machine, progress=progress)


def _align(
    path: Path, columns: tuple[int, int], loaded: LoadedModel, options: ShortlistOptions, report: Reporter
) -> tuple[Shortlist, dict[str, Any]]:
    """A shortlist from the sentence pairs of a file, and the facts of how it was made."""
    with report.stage("reading", None, "pairs") as advance:
        pairs = distinct(column_pairs(path, *columns))
        fit, held_out = read_pairs(pairs, path, loaded.source, loaded.target, options.max_pairs, advance)
    with report.stage("aligning", options.rounds, "rounds") as advance:
        shortlist = fit_pairs(fit, loaded.source, loaded.target, options, advance)
    known, sources = len(np.unique(np.concatenate([source for source, _ in fit]))), len(loaded.source)
    if known < LEAST_KNOWN * sources:
        raise InputError(
            f"{path} has {known} of the {sources} source tokens; a shortlist needs {LEAST_KNOWN:.0%} at least. "
            "Nothing was written; give 100,000 different pairs or so."
        )
    return shortlist, {"fitted_pairs": len(fit), "held_out": coverage(shortlist, held_out)}


def read_pairs(
    pairs: Iterable[Pair],
    origin: Path,
    source: Vocabulary,
    target: Vocabulary,
    most: int,
    progress: Callable[[int], None],
) -> tuple[EncodedPairs, EncodedPairs]:
    """The first `most` pairs with tokens on both sides, or as many as memory allows: to fit on, and held out.

    `progress` is called with the number of new pairs. Raises InputError where the file `origin` had no pair.
    """
    fit, held_out, cells = EncodedPairs(), EncodedPairs(), 0
    for left, right in pairs:
        s = np.array(source.encode(left)[:LONGEST], np.int32)
        t = np.array(target.encode(right)[:LONGEST], np.int32)
        if not len(s) or not len(t):
            continue
        part = held_out if len(fit) % HELD_OUT == HELD_OUT - 1 and len(held_out) * HELD_OUT < len(fit) else fit
        part.append((s, t))
        progress(1)
        cells += (len(s) + 1) * len(t)
        if len(fit) + len(held_out) >= most or cells >= MOST_CELLS:
            break
    if not fit:
        raise InputError(f"{origin} has no sentence pair with text on both sides; give more text.")
    return fit, held_out


def fit_pairs(
    pairs: EncodedPairs,
    source: Vocabulary,
    target: Vocabulary,
    options: ShortlistOptions,
    progress: Callable[[int], None],
) -> Shortlist:
    """The likeliest translations of each source token by alignment, and the most frequent target tokens of `pairs`.

    `progress` is called with 1 after each round of alignment.
    """
    translations = align(pairs, len(source), options.rounds, progress)
    number = np.bincount(np.concatenate([tokens for _, tokens in pairs]), minlength=len(target))
    frequent = np.argsort(-number, kind="stable")[: options.frequent]
    frequent = frequent[number[frequent] > 0]
    always = {*frequent.tolist(), *target.special_ids.values()}
    return shortlist_of(translations, len(source), options.translations, always)


@dataclass(frozen=True)
class Translations:
    """t(target | source) of all pairs of tokens that occur in one pair of sentences, sorted by source, then target."""

    source: Ids  # [n]
    target: Ids  # [n]
    probability: Scores  # [n]; those of one source token sum to 1


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


def coverage(shortlist: Shortlist, pairs: EncodedPairs) -> dict[str, float] | None:
    """The number of `pairs`, the share of their target tokens ("words") in their sets, and the average set."""
    if not pairs:
        return None
    sets = [shortlist.tokens(source) for source, _ in pairs]
    inside = sum(int(np.isin(target, tokens).sum()) for (_, target), tokens in zip(pairs, sets, strict=True))
    words = inside / sum(len(target) for _, target in pairs)
    return {"pairs": len(pairs), "words": words, "average_set": sum(map(len, sets)) / len(pairs)}


def align(pairs: EncodedPairs, source_vocab: int, rounds: int, progress: Callable[[int], None]) -> Translations:
    """Fit t(target | source) on sentence pairs in `rounds` rounds, from a uniform start.

    Source ids are below `source_vocab`. Takes 4 bytes for each pair of tokens that occur in one pair of sentences.
    `progress` is called with 1 after each round.
    """
    keys, parts = _cells(pairs, source_vocab)
    source = (keys >> 32).astype(np.int32)
    table = np.ones(len(keys))
    for _ in range(rounds):
        count = np.zeros(len(keys))
        for entry, which, width in parts:
            likely = table[entry][which]
            first = np.cumsum(width) - width
            share = likely / np.add.reduceat(likely, first).repeat(width)  # P(aligned | both sentences)
            count[entry] += np.bincount(which, share, len(entry))
        total = np.bincount(source, count, source_vocab + 1)
        table = count / np.maximum(total, np.finfo(float).tiny)[source]
        progress(1)
    real = source < source_vocab  # without the empty token
    return Translations(source[real], keys[real].astype(np.int32), table[real])


def _cells(pairs: EncodedPairs, empty: int) -> tuple[Numbers, list[tuple[Numbers, Ids, Numbers]]]:
    """The different pairs of tokens as source << 32 | target, ascending; and parts of about CELLS cells.

    A cell is a target position and a token of its source. Of each part: the indices of its different pairs of tokens,
    which of them each cell is, and the cells of each target position, which follow each other.
    """
    pairs = [(np.append(source, empty), target) for source, target in pairs if len(target)]
    number = np.cumsum([len(source) * len(target) for source, target in pairs]) // CELLS
    ends = [*(np.flatnonzero(np.diff(number)) + 1).tolist(), len(pairs)] if pairs else []
    parts = []
    for first, last in zip([0, *ends], ends, strict=False):
        some = pairs[first:last]
        cells = [(source.astype(np.int64) << 32 | target[:, None]).ravel() for source, target in some]
        local, which = np.unique(np.concatenate(cells), return_inverse=True)
        width = np.repeat([len(source) for source, _ in some], [len(target) for _, target in some])
        parts.append((local, which.ravel().astype(np.int32), width))
    every = np.unique(np.concatenate([np.empty(0, np.int64), *(local for local, _, _ in parts)]))
    return every, [(np.searchsorted(every, local), which, width) for local, which, width in parts]
