"""Shortlists of Marian: its `lex` files, which may be gzipped (.gz).

A lex file has a line "target source probability" for each pair of tokens, separated by spaces; lines with NULL are
for the empty token (marian src/data/shortlist.cpp).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.errors import InputError
from sharpbeam.fit.shortlist.alignment import Translations
from sharpbeam.fit.shortlist.fit import shortlist_of
from sharpbeam.options.fit import ShortlistOptions
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.storage.marian_shortlist import is_marian_shortlist, read_marian_shortlist
from sharpbeam.text.lines import read_lines
from sharpbeam.text.vocabulary import Vocabulary

LEAST_KNOWN = 0.5  # share of a file's entries whose tokens the model must know
EXAMPLES = 3  # unknown tokens in an error
EMPTY = "NULL"
Facts = dict[str, Any]  # of shortlist.json: "imported", the counts of a file's entries


class _Tokens:
    """Ids of tokens by their text; keeps a few examples of those that are missing."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._ids = {vocabulary.piece(token): token for token in range(len(vocabulary))}
        self.missing: dict[str, None] = {}

    def id(self, text: str) -> int | None:
        """The id of `text`, or None."""
        token = self._ids.get(text)
        if token is None and len(self.missing) < EXAMPLES:
            self.missing[text] = None
        return token


def read_lex(path: Path, source: Vocabulary, target: Vocabulary, options: ShortlistOptions) -> tuple[Shortlist, Facts]:
    """A Marian lex file: the likeliest translations of each token, and the first tokens of the target vocabulary.

    A binary one (`storage/marian_shortlist.py`) is taken whole, and the options do not apply. In a text one, as in
    Marian, `options.frequent` counts ids from 0: vocabularies begin with special and frequent tokens. Raises InputError
    for a line without three columns or a probability outside [0, 1], and as `_facts`.
    """
    if is_marian_shortlist(path):
        special, shared = target.special_ids.values(), source.serialized == target.serialized
        shortlist = read_marian_shortlist(path, len(source), len(target), special, shared)
        return shortlist, _facts(path, len(shortlist.token), 0, ())
    sources, targets, entries, unknown = _Tokens(source), _Tokens(target), 0, 0
    table: dict[tuple[int, int], float] = {}
    for number, line in enumerate(read_lines(path), 1):
        columns = [column for column in line.replace("\t", " ").split(" ") if column]
        if not columns:
            continue
        if len(columns) != 3:
            raise InputError(
                f"{path}, line {number}: {len(columns)} columns; a lex file has three: target, source, probability."
            )
        probability = _probability(columns[2], path, number)
        if EMPTY in columns[:2]:
            continue
        entries += 1
        t, s = targets.id(columns[0]), sources.id(columns[1])
        if s is None or t is None:
            unknown += 1
        else:
            table[s, t] = max(probability, table.get((s, t), 0.0))
    facts = _facts(path, entries, unknown, [*targets.missing, *sources.missing])
    pairs = np.array(list(table), np.int32).reshape(-1, 2)
    translations = Translations(pairs[:, 0], pairs[:, 1], np.array(list(table.values())))
    always = {*range(min(options.frequent, len(target))), *target.special_ids.values()}
    return shortlist_of(translations, len(source), options.translations, always), facts


def _facts(path: Path, entries: int, unknown: int, examples: Sequence[str]) -> Facts:
    """The counts of a file's entries; raises InputError if it has none, or is for other vocabularies."""
    if not entries:
        raise InputError(f"{path} has no entry; give a file with one on each line.")
    if entries - unknown < LEAST_KNOWN * entries:
        raise InputError(
            f"{path}: {unknown} of {entries} entries have tokens that the model's vocabularies lack, such as "
            f"{', '.join(examples[:EXAMPLES])}; the file is for another model, or its columns are swapped."
        )
    imported = {"entries": entries, "unknown": unknown, "examples": [*examples[:EXAMPLES]]}
    return {"imported": imported}


def _probability(text: str, path: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1.001:  # rounded sums
        raise InputError(f"{path}, line {line}: the probability is {text!r}; it must be a number from 0 to 1.")
    return value
