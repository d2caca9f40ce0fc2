"""The spelling of a vocabulary: how rare words are, and whether it can write them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cached_property
from math import log

from sharpbeam.text.vocabulary import Vocabulary

FEW = 100  # pieces that are about as frequent: signs, endings and the like come first
MOST_PIECES = 2  # of a word in small letters that is no name
WORD = re.compile(r"\w+|[^\w\s]")
PROBE = "X1 471"  # what a vocabulary of pieces can write, and a list of words cannot
OTHERS = ("<super>", "<sub>", "<circle>", "<font>")  # letters and digits that are normalized to what is something else


class Spelling:
    """The spelling of a vocabulary that is read at the first word; without one, words are as rare as they are long."""

    def __init__(self, read: Callable[[], Vocabulary] | None = None) -> None:
        self._read = read

    @cached_property
    def _known(self) -> tuple[Vocabulary, int] | None:
        """The vocabulary, and its id of what it lacks."""
        vocabulary = self._read() if self._read else None
        return (vocabulary, vocabulary.special_ids.get("unk_id", -1)) if vocabulary else None

    def rarity(self, word: str) -> float:
        """The rarity of a word: by Zipf's law, from the numbers of its pieces, which vocabularies have by frequency."""
        if self._known is None:
            return len(word)
        vocabulary, unknown = self._known
        return sum(log(FEW + (len(vocabulary) if id == unknown else id)) for id in vocabulary.encode(word))

    def lacks(self, text: str) -> bool:
        """Whether a letter or sign of a text has no piece; a list of words lacks many a word, which says nothing.

        The capital letter of a word whose small letters are few pieces, as that of "Às", is none: models learn to do
        without it. That of a name, as "Çelik", is.
        """
        if self._known is None:
            return False
        vocabulary, unknown = self._known
        other = (
            sign > "\x7f" and unicodedata.decomposition(sign).startswith(OTHERS) for sign in text if sign not in "ªº"
        )
        lacking = not text.isascii() and any(other)
        lacking = lacking or (unknown in vocabulary.encode(text) and any(map(self._lost, WORD.findall(text))))
        return lacking and unknown not in vocabulary.encode(PROBE)

    def _lost(self, word: str) -> bool:
        """Whether a word has a letter without a piece, and is not one of few pieces in small letters."""
        vocabulary, unknown = self._known or (None, -1)
        if vocabulary is None or unknown not in vocabulary.encode(word):
            return False
        small = vocabulary.encode(word.lower())
        return unknown in small or len(small) > MOST_PIECES
