"""Words of a text, and which words of a source the words of its translation attended to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sharpbeam.decoding.results import Translation
from sharpbeam.text.flags import WORD

SPACE = "▁"  # begins a piece after a space, in SentencePiece
_NEAR = 12  # characters to look ahead where a piece is not what the text has
Weights = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class WordAttention:
    """Words of a source and its translation as ranges of characters, and attention between them."""

    source: list[tuple[int, int]]  # S ranges
    target: list[tuple[int, int]]  # T ranges
    weights: Weights  # [T, S], rows sum to 1, or to 0 without a word in the source


def words(text: str) -> list[tuple[int, int]]:
    """Ranges of the words and signs of `text`."""
    return [match.span() for match in WORD.finditer(text)]


def word_attention(source: str, target: str, translation: Translation) -> WordAttention:
    """Attention between words; where the translation has none, words are taken to be in the same order.

    A word that stands once on each side, a name or a number, belongs to itself.
    """
    left, right = words(source), words(target)
    weights = np.zeros((len(right), len(left)))
    if translation.attention and translation.tokens and translation.source_tokens:
        pieces = np.array(translation.attention[: len(translation.tokens)])[:, :-1]
        own = _membership(translation.tokens, target, right)
        theirs = _membership(translation.source_tokens, source, left)
        weights = own.T @ pieces @ theirs
        for row, column in np.argwhere(pieces > 0.99).tolist():
            ours, others = own[row].nonzero()[0], theirs[column].nonzero()[0]
            if translation.tokens[row] == translation.source_tokens[column] and len(ours) == len(others) > 1:
                weights[ours] = np.eye(len(left))[others]  # the words of a span that was kept
    total = weights.sum(1, keepdims=True)
    near = _diagonal(len(right), len(left))
    weights = np.where(total > 1e-9, weights / np.maximum(total, 1e-9), near) + 1e-3 * near
    weights /= np.maximum(weights.sum(1, keepdims=True), 1e-9)
    for row, column in _same(source, left, target, right):
        weights[row] = 0.0
        weights[row, column] = 1.0
    return WordAttention(left, right, weights)


def _membership(pieces: Sequence[str], text: str, ranges: list[tuple[int, int]]) -> Weights:
    """[pieces, words]: the share of each piece's characters that is in each word."""
    belongs = np.zeros((len(pieces), len(ranges)))
    owner = np.full(len(text) + 1, -1)
    for index, (start, end) in enumerate(ranges):
        owner[start:end] = index
    for index, (start, end) in enumerate(piece_ranges(pieces, text)):
        inside = owner[start:end]
        for word in inside[inside >= 0]:
            belongs[index, word] += 1.0 / max(1, end - start)
    return belongs


def piece_ranges(pieces: Sequence[str], text: str) -> list[tuple[int, int]]:
    """The range of each piece in `text`, without spaces.

    A piece that is not there as it stands (a normalized or an unknown character) takes the letters at its place, and so
    may the next one.
    """
    ranges, at = [], 0
    lowered = text.lower() if len(text.lower()) == len(text) else text
    for piece in pieces:
        form = piece.replace(SPACE, " ").strip()
        form = form.lower() if lowered is not text else form
        while at < len(text) and text[at].isspace():
            at += 1
        start = lowered.find(form, at, at + len(form) + _NEAR) if form and form != "<unk>" else -1
        if start < 0:
            ranges.append((at, min(at + max(1, len(form) if form != "<unk>" else 1), len(text)) if form else at))
            continue
        if start > at and ranges and ranges[-1][1] == at:  # what was between belongs to the piece before
            ranges[-1] = (ranges[-1][0], start)
        at = start + len(form)
        ranges.append((start, at))
    return ranges


def _diagonal(rows: int, columns: int) -> Weights:
    """[rows, columns]: shares that are largest at the same relative place."""
    if not rows or not columns:
        return np.zeros((rows, columns))
    distance = (np.arange(rows)[:, None] + 0.5) / rows - (np.arange(columns) + 0.5) / columns
    near = np.exp(-((distance * columns) ** 2))
    shares: Weights = near / np.maximum(near.sum(1, keepdims=True), 1e-12)
    return shares


def _same(source: str, left: list[tuple[int, int]], target: str, right: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs (target word, source word) of equal words that stand once on each side."""

    def once(text: str, ranges: list[tuple[int, int]]) -> dict[str, int]:
        seen: dict[str, list[int]] = {}
        for index, (start, end) in enumerate(ranges):
            seen.setdefault(text[start:end].casefold(), []).append(index)
        return {word: places[0] for word, places in seen.items() if len(places) == 1}

    ours, theirs = once(source, left), once(target, right)
    return [(theirs[word], ours[word]) for word in ours.keys() & theirs.keys()]
