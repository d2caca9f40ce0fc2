"""Segments: what of a text is translated by itself, and what is kept between."""

from __future__ import annotations

import re
from dataclasses import dataclass

LINE = re.compile(r"[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")


@dataclass(frozen=True, slots=True)
class Segments:
    """A text in pieces: `between[0] sentences[0] between[1] ... between[-1]`."""

    sentences: list[str]
    between: list[str]  # one more than sentences; kept as it is

    def joined(self, translations: list[str]) -> str:
        """The text with `translations` in the places of the sentences."""
        parts = [part for pair in zip(self.between, translations, strict=False) for part in pair]
        return "".join([*parts, self.between[-1]])


def split_text(text: str, language: str) -> Segments:
    """The sentences of a text; line breaks, spaces around them and lines without any letter or digit are kept."""
    sentences, between, end = [], [], 0
    for line in LINE.finditer(text):
        sentence = line[0].strip()
        if any(map(str.isalnum, sentence)):
            begin = text.index(sentence, line.start())
            sentences.append(sentence)
            between.append(text[end:begin])
            end = begin + len(sentence)
    return Segments(sentences, [*between, text[end:]])
