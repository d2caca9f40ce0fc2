"""Glossaries: terms, and the translations that an answer has to contain; contract/terms.py puts them there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sharpbeam.errors import InputError
from sharpbeam.text.lines import read_lines
from sharpbeam.text.spans import ALONE
from sharpbeam.text.termbase import read_termbase

Terms = Mapping[str, str | Sequence[str]]

MOST_LETTERS, MOST_FORMS = 200, 32  # of a term or a form; forms of a term
_LETTER = re.compile(rf"[^\W{ALONE}]")
_WORD = rf"[{ALONE}]|[^\W{ALONE}]+|[^\w\s]"


@dataclass(frozen=True, slots=True)
class Term:
    """A term in a text: its range, and the forms of its translation, of which one is enough."""

    start: int
    end: int
    forms: tuple[str, ...]


class Glossary:
    """Terms and their translations: `Glossary({"Haus": "home", "Katze": ["cat", "kitty"]})`.

    A term matches whole words, the longest first; one in lower case is found in any case, others as
    they are written. Of several forms of a translation one is enough, and each may begin with a capital letter, as the
    first word of a sentence does.
    """

    def __init__(self, terms: Terms) -> None:
        """Raises InputError unless each term has a translation, or a list of them, and none is overlong."""
        self.terms = dict(_checked(terms))
        """The forms of each term."""
        self._by_first: dict[str, list[str]] = {}
        for term in sorted(self.terms, key=lambda term: (-len(term), term.islower(), term)):
            self._by_first.setdefault(re.findall(_WORD, term)[0].lower(), []).append(term)

    @staticmethod
    def of(terms: Glossary | Terms | None) -> Glossary | None:
        """A glossary of `terms`; None if there are none."""
        glossary = terms if isinstance(terms, Glossary) or terms is None else Glossary(terms)
        return glossary if glossary is not None and glossary.terms else None

    def find(self, text: str) -> list[Term]:
        """The terms in `text`, in order; no two share a letter."""
        matches: list[Term] = []
        ends: set[int] = set()
        for word in re.finditer(_WORD, text):
            start, at = word.start(), matches[-1].end if matches else 0
            candidates = self._by_first.get(word[0].lower()) if start >= at else None
            if not candidates:
                continue
            ends = ends or {each.end() for each in re.finditer(_WORD, text)}
            for term in candidates:
                end = start + len(term)
                piece = text[start:end]
                if end in ends and (piece == term or (term.islower() and piece.lower() == term)):
                    matches.append(Term(start, end, self.terms[term]))
                    break
        return matches


def spaceless(letter: str) -> bool:
    """Whether a letter is of a script that is written without spaces."""
    return re.match(rf"[{ALONE}]", letter) is not None


def joined_at(text: str, at: int) -> bool:
    """Whether a letter or digit is there, of a script that is written with spaces."""
    return _LETTER.match(text, at) is not None


@cache
def _articles() -> dict[str, list[str]]:
    lines = (Path(__file__).parent / "articles.txt").read_text(encoding="utf-8").splitlines()
    groups = [line.split() for line in lines]
    words = {word for group in groups for word in group}
    return {word: [each for group in groups if word in group for each in group] for word in words}


def article_forms(word: str) -> list[str]:
    """The forms of an article or the like, as of "la": el, la, los, las, le, les, il, ...; none of other words."""
    forms = _articles().get(word.lower(), [])
    return [form.capitalize() if word[:1].isupper() else form for form in forms]


def places(terms: Sequence[Term], translation: str) -> list[tuple[int, int] | None]:
    """Where each term is in a translation: the first form of it, in any case and as whole words, of no term before."""
    folded = translation.lower() if len(translation.lower()) == len(translation) else translation
    matches: dict[tuple[str, ...], Iterator[tuple[int, int]]] = {}  # those of a term that are left
    used, found = bytearray(len(translation)), list[tuple[int, int] | None]()
    for term in terms:
        if term.forms not in matches:
            every = (place for form in term.forms for place in _whole(form.lower(), folded))
            matches[term.forms] = iter(sorted(every, key=lambda place: place[0]))
        place = next((each for each in matches[term.forms] if not any(used[slice(*each)])), None)
        found.append(place)
        if place is not None:
            used[slice(*place)] = b"\1" * (place[1] - place[0])
    return found


def _whole(form: str, text: str) -> Iterator[tuple[int, int]]:
    """Where a form is in a text as whole words."""
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        if not (joined_at(text, end) or (start and joined_at(text, start - 1))):
            yield start, end
        start = text.find(form, start + 1)


def lacking(terms: Sequence[Term], translation: str) -> list[Term]:
    """The terms that a translation lacks."""
    return [term for term, place in zip(terms, places(terms, translation), strict=True) if place is None]


def read_glossary(path: str | Path, source_language: str = "", target_language: str = "") -> Glossary:
    """Terms of a file, a line for each: the term, a tab, its translation, and after further tabs other forms of it.

    A line with a term alone keeps it as it is. Raises InputError for another line. A file that ends in .tbx is a
    termbase, of which the terms of two languages are taken; with only two in it they need no names.
    """
    path = Path(path)
    if path.suffix.lower() == ".tbx":
        return Glossary(read_termbase(path, source_language, target_language))
    terms: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), 1):
        parts = [part.strip() for part in line.split("\t")]
        if not line.strip():
            continue
        if not all(parts):
            raise InputError(f"{path}, line {number}: give a term, a tab and its translation, or a term alone.")
        terms[parts[0]] = parts[1:] or parts
    return Glossary(terms)


def _checked(terms: object) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each term that is not blank with its forms; raises InputError."""
    if not isinstance(terms, Mapping) or not all(isinstance(term, str) for term in terms):
        raise InputError(f"glossary is {terms!r:.200}; give terms with their translations: {{'Haus': 'home'}}.")
    for term, value in terms.items():
        if not term.strip():
            continue
        forms = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else ()
        if not forms or not all(isinstance(form, str) and form.strip() for form in forms):
            raise InputError(f"the glossary has {value!r:.200} for {term!r}; give a translation, or a list of them.")
        if (count := len(forms)) > MOST_FORMS:
            raise InputError(f"the glossary has {count} translations for {term!r}; at most {MOST_FORMS} are allowed.")
        longest = max((term, *forms), key=len)
        if len(longest) > MOST_LETTERS:
            raise InputError(
                f"the glossary has {longest[:40]!r}... of {len(longest)} letters; terms and translations have at most "
                f"{MOST_LETTERS}."
            )
        yield term.strip(), tuple(form.strip() for form in forms)
