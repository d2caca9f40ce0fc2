"""Shortlists of other engines: Marian's `lex` files and CTranslate2's vocabulary maps.

A lex file has a line "target source probability" for each pair of tokens, separated by spaces; lines with NULL are
for the empty token (marian src/data/shortlist.cpp). A vocabulary map has a line "source TAB target target .." for
each source token or phrase, tokens separated by single spaces; the line without a source holds tokens of every set
(CTranslate2 src/vocabulary_map.cc). Both may be gzipped (.gz).
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
        return shortlist, _facts(path, len(shortlist.token), 0, 0, ())
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
    facts = _facts(path, entries, unknown, 0, [*targets.missing, *sources.missing])
    pairs = np.array(list(table), np.int32).reshape(-1, 2)
    translations = Translations(pairs[:, 0], pairs[:, 1], np.array(list(table.values())))
    always = {*range(min(options.frequent, len(target))), *target.special_ids.values()}
    return shortlist_of(translations, len(source), options.translations, always), facts


def read_vmap(path: Path, source: Vocabulary, target: Vocabulary) -> tuple[Shortlist, Facts]:
    """A CTranslate2 vocabulary map, whole: every translation, in the order of the file.

    The translations of a phrase go to its first token, so that a set is never smaller than CTranslate2's. Raises
    InputError for a line without a tab or with two, and as `_facts`.
    """
    sources, targets, entries, unknown, phrases = _Tokens(source), _Tokens(target), 0, 0, 0
    always, lists = set(target.special_ids.values()), [dict[int, None]() for _ in range(len(source))]
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise InputError(
                f"{path}, line {number}: {len(columns) - 1} tabs; a vocabulary map has one on each line, "
                "between a source and its target tokens."
            )
        source_tokens, texts = columns[0].split(" "), [text for text in columns[1].split(" ") if text]
        ids = [token for token in map(targets.id, texts) if token is not None]
        entries += len(texts)
        unknown += len(texts) - len(ids)
        if source_tokens == [""]:
            always.update(ids)
            continue
        first = sources.id(source_tokens[0])
        if first is None:
            unknown += len(ids)
            continue
        phrases += len(source_tokens) > 1
        lists[first].update(dict.fromkeys(ids))
    facts = _facts(path, entries, unknown, phrases, [*targets.missing, *sources.missing])
    start = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    token = np.array([token for translations in lists for token in translations], np.int32)
    return Shortlist(np.array(sorted(always), np.int32), start, token), facts


def _facts(path: Path, entries: int, unknown: int, phrases: int, examples: Sequence[str]) -> Facts:
    """The counts of a file's entries; raises InputError if it has none, or is for other vocabularies."""
    if not entries:
        raise InputError(f"{path} has no entry; give a file with one on each line.")
    if entries - unknown < LEAST_KNOWN * entries:
        raise InputError(
            f"{path}: {unknown} of {entries} entries have tokens that the model's vocabularies lack, such as "
            f"{', '.join(examples[:EXAMPLES])}; the file is for another model, or its columns are swapped."
        )
    imported = {"entries": entries, "unknown": unknown, "phrases": phrases, "examples": [*examples[:EXAMPLES]]}
    return {"imported": imported}


def _probability(text: str, path: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1.001:  # rounded sums
        raise InputError(f"{path}, line {line}: the probability is {text!r}; it must be a number from 0 to 1.")
    return value
