# ruff: noqa: RUF001 (Turkish letters)
"""Letter case: which case a sentence is written in, its usual spelling, and that case on another text.

Models translate text in capitals badly, since they have seen little of it. The usual spelling of a word is the one that
the vocabulary of the model writes with few and frequent pieces: "paris" has two, "Paris" has one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from sharpbeam.text.sentences import short_code

CaseName = Literal["upper", "title", "words"]
WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_LITTLE = re.compile(r"(?<=\d)(?:[^\W\d_]{2,}|(?-i:[a-zS]))(?![^\W_])|\b(?:[AP]\.M|I\.E|E\.G)\b", re.IGNORECASE)
_DOTTED = ("tr", "az", "aze")  # languages with a capital i that has its dot
LEAST_LOWERED = 2  # words of a title that are usually in lower case
LEAST_RUN = 2  # words in capitals, one after another, of a sentence that is not
LEAST_LETTERS = 8  # of such words
LEAST_CAPITALS = 5  # letters of a sentence in capitals, which otherwise is an abbreviation
LEAST_WORD = 3  # letters of the words of a title that are counted
LONG_WORD = 4  # letters of words that have a capital letter in any title, but for those in SMALL_WORDS
RARER = 1.25  # by so much rarity a word in lower case is a name (docs/lab/text.md)
NOUNS = ("de", "lb")  # languages whose nouns have capital letters
SMALL_WORDS = {  # that many titles have in lower case
    "en": "a an and as at but by for from in into nor of off on onto or over per than the to upon via vs with",
    "pt": "a ao aos as até com como da das de do dos e em entre mas na nas no nos nem o os ou para pela pelas pelo "
    "pelos por que se sem sob sobre um uma umas uns à às",
    "es": "a al como con de del desde e el en entre hasta la las lo los ni o para pero por que se sin sobre su tras u "
    "un una unas unos y",
    "fr": "a à au aux avec ce chez dans de des du en est et la le les leur mais ne ni ou où par pas pour que qui sa "
    "sans se ses si son sous sur un une vers",
    "it": "a ad ai al alla alle allo che con da dai dal dalla dalle degli dei del della delle dello di e ed fra gli i "
    "il in la le lo ma nei nel nella nelle o per se su sul sulla tra un una uno",
    "de": "als am an auf aus bei das dem den der des die durch ein eine einem einen einer eines für gegen im in ist "
    "mit nach oder ohne seit und unter vom von vor wie zu zum zur über",
    "nl": "aan als bij de den der een en het in met na naar of om op over per te ten tot uit van voor",
}
_SMALL = {language: frozenset(words.split()) for language, words in SMALL_WORDS.items()}
_ANY_SMALL = frozenset[str]().union(*_SMALL.values())


@dataclass(frozen=True, slots=True)
class Case:
    """The case of a sentence: all of it in capitals, a title, or some words in capitals."""

    name: CaseName
    text: str  # the sentence in its usual spelling, of the same length
    words: tuple[tuple[int, int], ...] = ()  # ranges of those in capitals, or that may be names
    small: bool = False  # short words of the title are in lower case


def lower(text: str, language: str) -> str:
    """The text in lower case."""
    if short_code(language) in _DOTTED:
        text = text.replace("İ", "i").replace("I", "ı")
    return text.lower()


def upper(text: str, language: str) -> str:
    """The text in capitals; Greek ones have no accents."""
    code = short_code(language)
    if code in _DOTTED:
        text = text.replace("i", "İ")
    if code == "el":
        text = unicodedata.normalize("NFC", unicodedata.normalize("NFD", text).replace("\u0301", ""))
    return text.upper()


def capitalized(word: str, language: str) -> str:
    """The word with its first letter as a capital."""
    return upper(word[:1], language) + word[1:]


def abbreviation(word: str, language: str, rarity: Callable[[str], float]) -> str:
    """The word in capitals, but for an s at its end where that is more usual: BBC's, CEOs."""
    large = upper(word, language)
    return min(large, large[:-1] + "s", key=rarity) if len(word) > 2 and large.endswith("S") else large


@cache
def known_names(language: str) -> Mapping[str, tuple[str, int]]:
    """Names of a language, by the word in lower case: spelling, and how often it is one, 1 to 3 (recipes/names.py)."""
    lists = {path.stem: path for path in (Path(__file__).parent / "names").glob("*.txt")}
    groups = lists[language].read_text(encoding="utf-8").split("\n\n") if language in lists else []
    return {word.lower(): (word, often) for often, group in enumerate(groups, 1) for word in group.split()}


def case_of(text: str, hidden: str, language: str, rarity: Callable[[str], float]) -> Case | None:
    """The case of a sentence; None where it is the usual one.

    `hidden` is the text with spaces in the places of what is no text. `rarity` is that of the spelling of a word.
    """
    words = list(WORD.finditer(hidden))
    runs = _runs(words)
    begun = sum(word[0][0].isupper() for word in words)
    name: CaseName = "words"
    chosen: Sequence[re.Match[str]] = [word for run in runs for word in run]
    if hidden.isupper() and sum(map(str.isalpha, hidden)) >= LEAST_CAPITALS:
        name, chosen = "upper", words
    elif not runs and len(words) > LEAST_LOWERED and 2 * begun >= len(words) and words[0][0][0].isupper():
        names = [word for word in words if len(word[0]) == 1 or word[0][1:].islower()]
        name, chosen = "title", [word for word in names if word[0][0].isupper()]
    if not chosen:
        return None
    language = language_of(hidden, language)
    little = {at for match in _LITTLE.finditer(hidden) for at in range(*match.span())}
    small = [word for word in words[1:] if _is_small(word[0].lower(), language)]
    others = [word[0] for word in words if word[0][0].islower() and word.start() not in little]
    if name == "title" and not all(
        word in _ANY_SMALL if not language else _is_small(word, language) for word in others
    ):
        return None
    spelled, lowered = text, 0
    for word in chosen:
        sides = hidden[max(0, word.start() - 1) : word.start()], hidden[word.end() : word.end() + 1]
        initial = name == "title" and len(word[0]) == 1 and not {"&", "."}.isdisjoint(sides)  # R&D
        shape = word[0].lower() if word.start() in little else word[0] if initial else ""
        usual = shape or _usual(word[0], language, rarity)
        lowered += usual.islower() and len(usual) >= LEAST_WORD and word[0][0].isupper() and word is not words[0]
        usual = capitalized(usual, language) if word is words[0] else usual
        if len(usual) == len(word[0]):
            spelled = spelled[: word.start()] + usual + spelled[word.end() :]
    least = LEAST_LOWERED + 2 * (language in NOUNS and bool(others))  # "Das ist ein Haus" has only small words
    if spelled == text or (name == "title" and lowered < least):
        return None
    large = small and all(word[0][0].isupper() for word in small)
    chosen = [word for word in chosen if name == "words" or (word is not words[0] and word.start() not in little)]
    return Case(name, spelled, tuple(word.span() for word in chosen), not large)


def titled(text: str, small: bool, language: str, begins: bool = True) -> str:
    """The text as a title or, unless it `begins` there, as a later part of one.

    Short words after the first one of the title stay in lower case where they are `small`.
    """
    first = WORD.search(text) if begins else None

    def word(match: re.Match[str]) -> str:
        stays = small and (first is None or match.start() > first.start()) and _is_small(match[0], language)
        return match[0] if stays or text[max(0, match.start() - 1)].isdigit() else capitalized(match[0], language)

    return WORD.sub(word, text)


def outside(text: str, fixed: Iterable[str], change: Callable[[str], str]) -> str:
    """The text with a change of everything but the texts in `fixed`."""
    pattern = "|".join(map(re.escape, sorted(set(fixed), key=len, reverse=True)))
    if not pattern:
        return change(text)
    parts = re.split(f"({pattern})", text)
    return "".join(part if index % 2 else change(part) for index, part in enumerate(parts))


def language_of(text: str, language: str) -> str:
    """The code of a language; where none is named, that of the language whose small words the text has most of."""
    if language:
        return short_code(language)
    words = WORD.findall(text.lower())
    counts = {code: sum(word in small for word in words) for code, small in _SMALL.items()}
    return max(counts, key=counts.__getitem__) if any(counts.values()) else ""


def _is_small(word: str, language: str) -> bool:
    """Whether a word in lower case is one that many titles have so."""
    words = _SMALL.get(language)
    return word in words if words else len(word) < LONG_WORD and word.islower()


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


def _usual(word: str, language: str, rarity: Callable[[str], float]) -> str:
    """The spelling of a word that is not much rarer than the others, in lower case where that is one of them."""
    low = lower(word, language)
    name, capitals = capitalized(low, language), abbreviation(word, language, rarity)
    margin = 0.0 if len(word) == 1 else RARER
    usual = name if rarity(low) > rarity(name) + margin else low
    return capitals if len(word) > 1 and rarity(usual) > rarity(capitals) + margin / 2 else usual
