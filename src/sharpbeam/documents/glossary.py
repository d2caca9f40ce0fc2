"""Glossary: terms of the source whose translation is given, and terms that are kept.

A term that is in the translation by itself stays as it is there. Otherwise the words that attended to it are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sharpbeam.documents.segment import Segment, Tag
from sharpbeam.errors import InputError
from sharpbeam.text.lines import read_lines

Glossary = Mapping[str, str]


def read_glossary(path: Path) -> dict[str, str]:
    """Terms of a file with a line for each: the term, a tab, its translation; a line without a tab is kept as it is."""
    terms = {}
    for number, line in enumerate(read_lines(path), 1):
        parts = [part.strip() for part in line.split("\t")]
        if not line.strip():
            continue
        if len(parts) > 2 or not all(parts):
            raise InputError(f"{path}, line {number}: give a term, a tab and its translation, or a term alone.")
        terms[parts[0]] = parts[-1]
    return terms


class Terms:
    """Finds the terms of a glossary in texts: whole words, the longest first; one in lower case in any case."""

    def __init__(self, glossary: Glossary) -> None:
        self._glossary = {term: text for term, text in glossary.items() if term.strip()}
        self._lowered = {term.lower(): text for term, text in self._glossary.items() if term.islower()}
        either = "|".join(re.escape(term) for term in sorted(self._glossary, key=lambda term: (-len(term), term)))
        self._pattern = re.compile(rf"(?<!\w)(?:{either})(?!\w)", re.I) if either else None

    def marked(self, segment: Segment) -> Segment:
        """The segment with a tag at each term that is in no fixed text and crosses no tag."""
        if self._pattern is None:
            return segment
        new: list[tuple[int, int, str]] = []
        for match in self._pattern.finditer(segment.text):
            text = self._glossary.get(match[0]) or self._lowered.get(match[0].lower())
            start, end = match.span()
            outside = all(
                end <= tag.start or tag.end <= start or (tag.start <= start and end <= tag.end and not tag.fixed)
                for tag in segment.tags
            )
            if text and outside:
                new.append((start, end, text))
        return _with(segment, new) if new else segment


def _with(segment: Segment, terms: list[tuple[int, int, str]]) -> Segment:
    """Add tags of terms, each inside of the innermost tag around it."""
    tags = list(segment.tags)
    ordered: list[tuple[tuple[int, int], int, Tag]] = [
        ((tag.start, index), index, tag) for index, tag in enumerate(tags)
    ]
    for start, end, text in terms:
        around = [i for i, tag in enumerate(tags) if tag.start <= start and end <= tag.end]
        # after every tag that opens at the same place, of which it is inside
        place = (start, max(around, default=-1) + len(tags))
        ordered.append((place, -1, Tag(start, end, text, parent=max(around, default=-1), fixed=True, term=True)))
    ordered.sort(key=lambda item: item[0])
    new = {old: number for number, (_, old, _) in enumerate(ordered) if old >= 0} | {-1: -1}
    return Segment(segment.text, tuple(replace(tag, parent=new[tag.parent]) for _, _, tag in ordered))
