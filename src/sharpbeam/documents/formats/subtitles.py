"""Subtitles, SRT and WebVTT: times and settings stay; a cue keeps its number of lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.formats.placeholders import with_placeholders
from sharpbeam.documents.segment import Part, is_translatable, written
from sharpbeam.errors import InputError

_TIME = r"(?:\d+:)?[0-5]?\d:[0-5]\d[.,]\d{1,3}"
_TIMES = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?:[ \t].*)?")
_END = re.compile(r"(\r\n|\n|\r)")
_NEARLY = re.compile(r"[ \t]*\d+:\d+")  # the beginning of times
_MARKUP = re.compile(r"<[^<>\n]*>|\{\\[^{}\n]*\}|\u266a|&\w+;")
_SPEECH = re.compile(r"\s*[-\u2013\u2014]")  # a line of its own speaker


class SubtitleDocument(Template):
    """Cues in SRT or WebVTT."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self._vtt = content.lstrip("\ufeff").startswith("WEBVTT")
        self._wraps: list[list[str]] = []  # of each group of lines: line ends, whose number stays
        self._groups: list[tuple[int, int]] = []  # first and last segment of each
        parts = [*_END.split(content), ""]
        self._lines, self._ends = parts[::2], parts[1::2]
        self._times = [bool(_TIMES.fullmatch(line)) for line in self._lines]
        self._seen = False  # a cue
        at = 0
        while at < len(self._lines):
            last = at
            while last < len(self._lines) and self._lines[last].strip(" \t"):
                last += 1
            self._block(at, last)
            at = last + 1
            if last < len(self._lines):
                self._keep(last, at)
        if is_translatable(content) and not (self._vtt or self._seen):
            raise InputError("these are no subtitles: no line has times, as 00:00:01,000 --> 00:00:02,500 is.")

    def write(self, translated: Sequence[Sequence[Part]]) -> str:
        """The subtitles."""
        texts = [" ".join(written(list(parts), self._escaped).split()) for parts in translated]
        for (first, last), ends in zip(self._groups, self._wraps, strict=True):
            if last == first + 1 and ends:
                texts[first] = _wrapped(texts[first], ends)
        return self.filled(texts)

    def _escaped(self, text: str) -> str:
        text = re.sub(r"-->", "\u2192", text)
        return escape(text, quote=False) if self._vtt else text

    def _block(self, first: int, last: int) -> None:
        """Lines without an empty one between them: cues, each with its times and perhaps a line before them."""
        times = [at for at in range(first, last) if self._times[at]]
        heads = [at - (at == first + 1 or (at > first and self._counts(at - 1))) for at in times]
        begin = heads[0] if heads else last
        self._check(first, begin)
        if self._vtt or not self._seen:
            self._keep(first, begin)
        else:  # text of the cue before, after an empty line
            self._text(first, begin)
        for at, end in zip(times, [*heads[1:], last], strict=False):
            self._seen = True
            self._keep(begin, at + 1)
            self._text(at + 1, end)
            begin = end

    def _counts(self, at: int) -> bool:
        """Whether a line is a number, as each cue of SRT has one."""
        return self._lines[at].strip().isdigit()

    def _check(self, first: int, last: int) -> None:
        """Raise InputError where a line before the times of a block, or without any, was meant to be times."""
        if first < last and not (self._vtt and self._lines[first].startswith("NOTE")):
            for at in range(first, min(last, first + 2)):
                counted = at > first and self._counts(first) and _NEARLY.match(self._lines[at])
                if "-->" in self._lines[at] or counted:
                    raise self._wrong(at)

    def _wrong(self, at: int) -> InputError:
        line = self._lines[at][:60]
        return InputError(f"line {at + 1} is {line!r}; it must be times, as 00:00:01,000 --> 00:00:02,500.")

    def _text(self, first: int, last: int) -> None:
        texts, ends = self._lines[first:last], self._ends[first:last]
        for at in range(first + 1, last):
            if self._counts(at - 1) and "->" in self._lines[at] and _NEARLY.match(self._lines[at]):
                raise self._wrong(at)
        if not is_translatable("".join(texts)):
            self._keep(first, last)
        elif any(_SPEECH.match(line) for line in texts):
            for line, end in zip(texts, ends, strict=True):
                dash = _SPEECH.match(line)
                self.keep(dash[0] if dash else "")
                self._put(line[dash.end() if dash else 0 :], [])
                self.keep(end)
        else:
            self._put(" ".join(texts), ends[:-1])
            self.keep(ends[-1])

    def _keep(self, first: int, last: int) -> None:
        for at in range(first, last):
            self.keep(self._lines[at] + self._ends[at])

    def _put(self, text: str, ends: list[str]) -> None:
        first = len(self.segments)
        built = with_placeholders(text, _MARKUP)
        self.add(built, str)
        self._groups.append((first, len(self.segments)))
        self._wraps.append(ends if not any(isinstance(item, Part) for item in built) else [])


def _wrapped(text: str, ends: list[str]) -> str:
    """The text in len(ends) + 1 lines of about the same length, or fewer if it has fewer words."""
    words, lines, at, length = text.split(" "), list[str](), 0, len(text)  # length: of the words from `at`
    for left in range(len(ends) + 1, 1, -1):
        goal, first, size = length / left, at, len(words[at])
        at += 1
        while len(words) - at >= left and size + 1 + len(words[at]) / 2 <= goal:
            size += 1 + len(words[at])
            at += 1
        lines.append(" ".join(words[first:at]))
        length -= size + 1
        if at == len(words):
            break
    if at < len(words):
        lines.append(" ".join(words[at:]))
    return "".join(line + end for line, end in zip(lines, [*ends[: len(lines) - 1], ""], strict=False))
