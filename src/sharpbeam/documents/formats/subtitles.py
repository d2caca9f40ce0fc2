"""Subtitles, SRT and WebVTT: times and settings stay; a cue keeps its number of lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.formats.placeholders import with_placeholders
from sharpbeam.documents.segment import Part, is_translatable, written
from sharpbeam.errors import InputError

_BLOCK = re.compile(r"((?:\r?\n|\r)[ \t]*(?:\r?\n|\r)+)")
_TIME = r"(?:\d+:)?[0-5]?\d:[0-5]\d[.,]\d{1,3}"
_TIMES = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?:[ \t].*)?")
_END = re.compile(r"\r\n|\n|\r")
_MARKUP = re.compile(r"<[^<>\n]*>|\{\\[^{}\n]*\}|\u266a|&\w+;")
_SPEECH = re.compile(r"\s*[-\u2013\u2014]")  # a line of its own speaker


class SubtitleDocument(Template):
    """Cues in SRT or WebVTT."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self._cues = 0
        self._vtt = content.lstrip("\ufeff").startswith("WEBVTT")
        self._lines: list[list[str]] = []  # of each group of lines: line ends, whose number stays
        self._groups: list[tuple[int, int]] = []  # first and last segment of each
        number = 1
        for index, part in enumerate(_BLOCK.split(content)):
            if index % 2:
                self.keep(part)
            else:
                self._block(part, number)
            number += len(_END.findall(part))
        if is_translatable(content) and not (self._vtt or self._cues):
            raise InputError("these are no subtitles: no line has times, as 00:00:01,000 --> 00:00:02,500 is.")

    def write(self, translated: Sequence[Sequence[Part]]) -> str:
        """The subtitles."""
        texts = [" ".join(written(list(parts), self._escaped).split()) for parts in translated]
        for (first, last), ends in zip(self._groups, self._lines, strict=True):
            if last == first + 1 and ends:
                texts[first] = _wrapped(texts[first], ends)
        return self.filled(texts)

    def _escaped(self, text: str) -> str:
        text = re.sub(r"-->", "\u2192", text)
        return escape(text, quote=False) if self._vtt else text

    def _block(self, block: str, number: int) -> None:
        body = block.rstrip("\r\n")
        lines = re.split(r"(\r?\n|\r)", body)
        times = next((at for at in range(0, len(lines), 2) if _TIMES.fullmatch(lines[at])), None)
        if times is None or times > 2:
            self._check(lines[:3:2], number)
            self.keep(block)
            return
        self._cues += 1
        self.keep("".join(lines[: times + 2]))
        texts, ends = lines[times + 2 :: 2], lines[times + 3 :: 2]
        if not is_translatable("".join(texts)):
            self.keep("".join(lines[times + 2 :]))
        elif any(_SPEECH.match(line) for line in texts):
            for index, line in enumerate(texts):
                dash = _SPEECH.match(line)
                self.keep(dash[0] if dash else "")
                self._put(line[dash.end() if dash else 0 :], [])
                self.keep(ends[index] if index < len(ends) else "")
        else:
            self._put(" ".join(texts), ends)
        self.keep(block[len(body) :])

    def _check(self, lines: list[str], first: int) -> None:
        """Raise InputError where one of `lines`, the first two of a block without times, was meant to be times."""
        if self._vtt and lines[0].startswith("NOTE"):
            return
        for number, line in enumerate(lines):
            cue = number == 1 and lines[0].strip().isdigit() and re.match(r"[ \t]*\d+:\d+", line)
            if "-->" in line or cue:
                raise InputError(
                    f"line {first + number} is {line[:60]!r}; it must be times, as 00:00:01,000 --> 00:00:02,500."
                )

    def _put(self, text: str, ends: list[str]) -> None:
        first = len(self.segments)
        built = with_placeholders(text, _MARKUP)
        self.add(built, str)
        self._groups.append((first, len(self.segments)))
        self._lines.append(ends if not any(isinstance(item, Part) for item in built) else [])


def _wrapped(text: str, ends: list[str]) -> str:
    """The text in len(ends) + 1 lines of about the same length, or fewer if it has fewer words."""
    words, lines = text.split(" "), []
    for left in range(len(ends) + 1, 1, -1):
        goal, line = len(" ".join(words)) / left, words[:1]
        rest = words[1:]
        while rest and len(rest) >= left and len(" ".join([*line, rest[0]])) - goal <= len(rest[0]) / 2:
            line.append(rest.pop(0))
        lines.append(" ".join(line))
        words = rest
        if not words:
            break
    if words:
        lines.append(" ".join(words))
    return "".join(line + end for line, end in zip(lines, [*ends[: len(lines) - 1], ""], strict=False))
