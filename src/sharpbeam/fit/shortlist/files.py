"""Shortlists of other engines: Marian's `lex` files are read, CTranslate2's vocabulary maps are read and written.

A lex file has a line "target source probability" for each pair of tokens, separated by spaces; lines with NULL are
for the empty token (marian src/data/shortlist.cpp). A vocabulary map has a line "source TAB target target .." for
each source token or phrase, tokens separated by single spaces; the line without a source holds tokens of every set
(CTranslate2 src/vocabulary_map.cc). Both may be gzipped (.gz).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from sharpbeam.errors import InputError
from sharpbeam.fit.shortlist.alignment import Translations
from sharpbeam.fit.shortlist.fit import shortlist_of
from sharpbeam.options.fit import ShortlistOptions
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.storage.atomic import write_text
from sharpbeam.storage.marian_shortlist import is_marian_shortlist, read_marian_shortlist
from sharpbeam.text.lines import read_lines
from sharpbeam.text.vocabulary import Vocabulary

LEAST_KNOWN = 0.5  # share of a file's entries whose tokens the model must know
EMPTY = "NULL"


@dataclass
class Imported:
    """Counts of the entries of a file."""

    entries: int = 0  # translations, or tokens of every set
    unknown: int = 0  # entries left out, since the model lacks one of their tokens
    phrases: int = 0  # sources of several tokens, whose translations went to the first one
    examples: list[str] = field(default_factory=list)  # a few unknown tokens

    def check(self, path: Path) -> None:
        """Raise InputError where the file has no entry, or is for other vocabularies."""
        if not self.entries:
            raise InputError(f"{path} has no entry; give a file with one on each line.")
        if self.entries - self.unknown < LEAST_KNOWN * self.entries:
            raise InputError(
                f"{path}: {self.unknown} of {self.entries} entries have tokens that the model's vocabularies lack, "
                f"such as {', '.join(self.examples)}; the file is for another model, or its columns are swapped."
            )


class _Tokens:
    """Ids of tokens by their text; keeps a few examples of those that are missing."""

    def __init__(self, vocabulary: Vocabulary, found: Imported) -> None:
        self._ids = {vocabulary.piece(token): token for token in range(len(vocabulary))}
        self._found = found

    def id(self, text: str) -> int | None:
        """The id of `text`, or None."""
        token = self._ids.get(text)
        if token is None and text not in self._found.examples and len(self._found.examples) < 3:
            self._found.examples.append(text)
        return token


def read_lex(
    path: Path, source: Vocabulary, target: Vocabulary, options: ShortlistOptions
) -> tuple[Shortlist, Imported]:
    """A Marian lex file: the likeliest translations of each token, and the first tokens of the target vocabulary.

    A binary one (`storage/marian_shortlist.py`) is taken whole, and the options do not apply. In a text one, as in
    Marian, `options.frequent` counts ids from 0: vocabularies begin with special and frequent tokens. Raises InputError
    for a line without three columns or a probability outside [0, 1], and as `Imported.check`.
    """
    found = Imported()
    if is_marian_shortlist(path):
        special, shared = target.special_ids.values(), source.serialized == target.serialized
        shortlist = read_marian_shortlist(path, len(source), len(target), special, shared)
        return shortlist, Imported(entries=len(shortlist.token))
    sources, targets = _Tokens(source, found), _Tokens(target, found)
    table: dict[tuple[int, int], float] = {}
    for number, line in enumerate(read_lines(path), 1):
        columns = line.replace("\t", " ").split(" ")
        columns = [column for column in columns if column]
        if not columns:
            continue
        if len(columns) != 3:
            raise InputError(
                f"{path}, line {number}: {len(columns)} columns; a lex file has three: target, source, probability."
            )
        probability = _probability(columns[2], path, number)
        if EMPTY in columns[:2]:
            continue
        found.entries += 1
        t, s = targets.id(columns[0]), sources.id(columns[1])
        if s is None or t is None:
            found.unknown += 1
        else:
            table[s, t] = max(probability, table.get((s, t), 0.0))
    found.check(path)
    pairs = np.array(list(table), np.int32).reshape(-1, 2)
    translations = Translations(pairs[:, 0], pairs[:, 1], np.array(list(table.values())))
    always = {*range(min(options.frequent, len(target))), *target.special_ids.values()}
    return shortlist_of(translations, len(source), options.translations, always), found


def read_vmap(path: Path, source: Vocabulary, target: Vocabulary) -> tuple[Shortlist, Imported]:
    """A CTranslate2 vocabulary map, whole: every translation, in the order of the file.

    The translations of a phrase go to its first token, so that a set is never smaller than CTranslate2's. Raises
    InputError for a line without a tab or with two, and as `Imported.check`.
    """
    found = Imported()
    sources, targets = _Tokens(source, found), _Tokens(target, found)
    always, lists = set(target.special_ids.values()), [dict[int, None]() for _ in range(len(source))]
    for number, line in enumerate(read_lines(path), 1):
        columns = line.split("\t")
        if len(columns) != 2:
            raise InputError(
                f"{path}, line {number}: {len(columns) - 1} tabs; a vocabulary map has one on each line, "
                "between a source and its target tokens."
            )
        source_tokens, given = columns[0].split(" "), [text for text in columns[1].split(" ") if text]
        ids = [token for token in map(targets.id, given) if token is not None]
        found.entries += len(given)
        found.unknown += len(given) - len(ids)
        if source_tokens == [""]:
            always.update(ids)
            continue
        first = sources.id(source_tokens[0])
        if first is None:
            found.unknown += len(ids)
            continue
        found.phrases += len(source_tokens) > 1
        lists[first].update(dict.fromkeys(ids))
    found.check(path)
    start = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    token = np.array([token for translations in lists for token in translations], np.int32)
    return Shortlist(np.array(sorted(always), np.int32), start, token), found


def write_vmap(path: Path, shortlist: Shortlist, source: Vocabulary, target: Vocabulary) -> int:
    """Write a CTranslate2 vocabulary map next to `path`, then rename it.

    Returns the number of entries left out: a token of theirs has a space in it, which the format cannot hold.
    """
    lost = 0

    def plain(tokens: Iterable[int]) -> str:
        nonlocal lost
        pieces = [target.piece(token) for token in tokens]
        kept = [piece for piece in pieces if _is_plain(piece)]
        lost += len(pieces) - len(kept)
        return " ".join(kept)

    lines = ["\t" + plain(shortlist.always.tolist())]
    for token in range(len(source)):
        translations = shortlist.token[shortlist.start[token] : shortlist.start[token + 1]].tolist()
        if translations and _is_plain(source.piece(token)):
            lines.append(f"{source.piece(token)}\t{plain(translations)}")
        else:
            lost += len(translations)
    write_text(path, "\n".join(lines) + "\n")
    return lost


def _is_plain(piece: str) -> bool:
    return bool(piece) and not any(character in piece for character in " \t\n\r")


def _probability(text: str, path: Path, line: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1.001:  # rounded sums
        raise InputError(f"{path}, line {line}: the probability is {text!r}; it must be a number from 0 to 1.")
    return value
