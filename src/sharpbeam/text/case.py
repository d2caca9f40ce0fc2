# ruff: noqa: RUF001 (Turkish letters)
"""Letter case: which case a sentence is written in, its usual spelling, and that case on another text.

Models translate text in capitals badly, since they have seen little of it. The usual spelling of a word is the one that
the vocabulary of the model writes with the fewest pieces: "paris" has two, "Paris" has one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

CaseName = Literal["upper", "title", "words"]
WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_DOTTED = ("tr", "az", "tur", "aze", "azj")  # languages with a capital i that has its dot
LEAST_LOWERED = 2  # words of a title that are usually in lower case
LEAST_RUN = 2  # words in capitals, one after another, of a sentence that is not
LEAST_LETTERS = 8  # of such words
LEAST_CAPITALS = 5  # letters of a sentence in capitals, which otherwise is an abbreviation
LEAST_WORD = 3  # letters of the words of a title that are counted
LONG_WORD = 4  # letters of words that have a capital letter in any title


@dataclass(frozen=True, slots=True)
class Case:
    """The case of a sentence: all of it in capitals, a title, or some words in capitals."""

    name: CaseName
    text: str  # the sentence in its usual spelling, of the same length
    capitals: tuple[tuple[int, int], ...] = ()  # ranges of the words in capitals
    small: bool = False  # short words of the title are in lower case


def lower(text: str, language: str) -> str:
    """The text in lower case."""
    if _code(language) in _DOTTED:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper(text: str, language: str) -> str:
    """The text in capitals; Greek ones have no accents."""
    code = _code(language)
    if code in _DOTTED:
        text = text.replace("i", "İ")
    if code in ("el", "ell"):
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).replace("\u0301", ""))
    return text.upper()


def capitalized(word: str, language: str) -> str:
    """The word with its first letter as a capital."""
    return upper(word[:1], language) + word[1:]


def case_of(text: str, hidden: str, language: str, count_pieces: Callable[[str], int]) -> Case | None:
    """The case of a sentence; None where it is the usual one.

    `hidden` is the text with spaces in the places of what is no text. `count_pieces` counts those of a word.
    """
    words = list(WORD.finditer(hidden))
    if not words:
        return None
    capitals = [word for word in words if len(word[0]) > 1 and word[0].isupper()]
    name: CaseName = "words"
    chosen: Sequence[re.Match[str]] = [word for run in _runs(words) for word in run]
    if hidden.isupper() and sum(map(str.isalpha, hidden)) >= LEAST_CAPITALS:
        name, chosen = "upper", words
    elif not capitals and len(words) > LEAST_LOWERED and words[0][0][0].isupper() and all(map(_in_title, words)):
        name, chosen = "title", words
    spelled, lowered = text, 0
    for word in chosen:
        alone = name == "title" and len(word[0]) == 1  # R&D
        usual = word[0] if alone else _usual(word[0], language, count_pieces)
        lowered += usual.islower() and len(usual) >= LEAST_WORD and word[0][0].isupper() and word is not words[0]
        usual = capitalized(usual, language) if word is words[0] else usual
        if len(usual) == len(word[0]):
            spelled = spelled[: word.start()] + usual + spelled[word.end() :]
    least = LEAST_LOWERED + (2 if _code(language) in ("de", "deu") else 0)  # its nouns have capital letters
    if spelled == text or (name == "title" and lowered < least):
        return None
    return Case(name, spelled, tuple(word.span() for word in chosen), any(word[0].islower() for word in words))


def titled(text: str, small: bool, language: str) -> str:
    """The text as a title, in which short words stay in lower case where they are `small`."""

    def word(match: re.Match[str]) -> str:
        short = small and len(match[0]) < LONG_WORD
        return match[0] if short else capitalized(match[0], language)

    return WORD.sub(word, text)


def outside(text: str, fixed: Iterable[str], change: Callable[[str], str]) -> str:
    """The text with a change of everything but the texts in `fixed`."""
    pattern = "|".join(map(re.escape, sorted(set(fixed), key=len, reverse=True)))
    if not pattern:
        return change(text)
    parts = re.split(f"({pattern})", text)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


def _code(language: str) -> str:
    return language.replace("_", "-").split("-")[0].lower()


def _in_title(match: re.Match[str]) -> bool:
    word = match[0]
    return (word[0].isupper() and (word[1:].islower() or len(word) == 1)) or (word.islower() and len(word) < LONG_WORD)


def _runs(words: Sequence[re.Match[str]]) -> list[list[re.Match[str]]]:
    """Words in capitals, one after another."""
    runs: list[list[re.Match[str]]] = [[]]
    for word in words:
        if word[0].isupper() and (len(word[0]) > 1 or runs[-1]):
            runs[-1].append(word)
        elif runs[-1]:
            runs.append([])
    long = (run for run in runs if sum(len(word[0]) > 1 for word in run) >= LEAST_RUN)
    return [run for run in long if sum(len(word[0]) for word in run) >= LEAST_LETTERS]


def _usual(word: str, language: str, count_pieces: Callable[[str], int]) -> str:
    """The spelling of a word with the fewest pieces, in lower case where that is one of them."""
    low = lower(word, language)
    return min((low, capitalized(low, language), word), key=count_pieces)
