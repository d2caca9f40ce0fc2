"""Subtitles, SRT, WebVTT and ASS: times and settings stay; a cue keeps its number of lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from html import escape

from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.formats.messages import with_placeholders
from sharpbeam.documents.segment import Part, Segment, is_translatable, written
from sharpbeam.errors import InputError

_TIME = r"(?:\d+:)?[0-5]?\d:[0-5]\d[.,]\d{1,3}"
_TIMES = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?:[ \t].*)?")
_END = re.compile(r"(\r\n|\n|\r)")
_NEARLY = re.compile(r"[ \t]*\d+:\d+")  # the beginning of times
_CODES = r"(?P<open>\{\\[bisu]1\})|(?P<close>\{\\[bisu]0\})|(?P<point>\{\\[^{}\n]*\})"
_MARKUP = re.compile(rf"<[^<>\n]*>|{_CODES}|\u266a|&\w+;")
_OVERRIDE = re.compile(rf"{_CODES}|\{{[^{{}}]*\}}|\\h")
_BREAK = re.compile(r"(\\[nN])")
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")
_PLAIN = str.maketrans({"{": "(", "}": ")", "\\": "/"})
_SPEECH = re.compile(r"\s*[-\u2013\u2014]")  # a line of its own speaker


class _Cues(Template):
    """Texts in lines, of which each keeps its number."""

    markup: re.Pattern[str]

    def cue(self, lines: Sequence[str], ends: Sequence[str]) -> None:
        """Add the lines of a cue with their ends: the sentences of one speaker, or those of each."""
        if not any(_SPEECH.match(line) for line in lines):
            self._put(" ".join(lines), list(ends[:-1]))
            self.keep(ends[-1])
            return
        for line, end in zip(lines, ends, strict=True):
            dash = _SPEECH.match(line)
            self.keep(dash[0] if dash else "")
            self._put(line[dash.end() if dash else 0 :], [])
            self.keep(end)

    def escaped(self, text: str) -> str:
        """A text in which nothing is markup."""
        raise NotImplementedError

    def _put(self, text: str, ends: list[str]) -> None:
        built = with_placeholders(text, self.markup)
        alone = sum(isinstance(item, Segment) for item in built) == 1
        for item in built:
            if isinstance(item, Segment):
                self.keep(self.mark([item], partial(self._text, ends if alone else [])))
            else:
                self.keep(item.text if isinstance(item, Part) else item)

    def _text(self, ends: list[str], parts: Sequence[Part]) -> str:
        """A translation in lines with `ends`; a space in markup is no place to cut it."""
        fixed = [Part(part.text.replace(" ", "\0"), markup=True) if part.markup else part for part in parts]
        return _wrapped(" ".join(written(fixed, self.escaped).split()), ends).replace("\0", " ")


class AssDocument(_Cues):
    """Dialogue in ASS or SSA; comments, styles and drawings stay."""

    markup = _OVERRIDE

    def __init__(self, content: str) -> None:
        super().__init__(content)
        section, commas = "", -1  # commas before the text of a dialogue
        for line, end in zip(*[iter([*_END.split(content), ""])] * 2, strict=True):
            section = line.strip().lower() if line.startswith("[") else section
            kind, _, fields = line.partition(":")
            if section == "[events]" and kind == "Format":
                names = [name.strip().lower() for name in fields.split(",")]
                commas = len(names) - 1 if names[-1] == "text" else -1
            if section != "[events]" or kind != "Dialogue" or commas < 0:
                self.keep(line + end)
                continue
            *head, text = line.split(",", commas)
            if len(head) < commas:
                raise InputError(f"the dialogue {line[:60]!r} has fewer fields than its format says.")
            self.keep(line[: len(line) - len(text)])
            if is_translatable(_OVERRIDE.sub("", text)) and not _DRAWING.search(text):
                lines = _BREAK.split(text)
                self.cue(lines[::2], [*lines[1::2], ""])
            else:
                self.keep(text)
            self.keep(end)
        if commas < 0:
            raise InputError("these are no ASS subtitles: no section [Events] has a format that ends in Text.")

    def escaped(self, text: str) -> str:
        """A text without braces, which would be markup, and backslashes."""
        return text.translate(_PLAIN)


class SubtitleDocument(_Cues):
    """Cues in SRT or WebVTT."""

    markup = _MARKUP

    def __init__(self, content: str) -> None:
        super().__init__(content)
        self._vtt = content.lstrip("\ufeff").startswith("WEBVTT")
        parts = [*_END.split(content), ""]
        self._lines, self._line_ends = parts[::2], parts[1::2]
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

    def escaped(self, text: str) -> str:
        """A text without an arrow, as times have; in WebVTT with entities."""
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
            self._lines_of(first, begin)
        for at, end in zip(times, [*heads[1:], last], strict=False):
            self._seen = True
            self._keep(begin, at + 1)
            self._lines_of(at + 1, end)
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

    def _lines_of(self, first: int, last: int) -> None:
        texts, ends = self._lines[first:last], self._line_ends[first:last]
        for at in range(first + 1, last):
            if self._counts(at - 1) and "->" in self._lines[at] and _NEARLY.match(self._lines[at]):
                raise self._wrong(at)
        if is_translatable("".join(texts)):
            self.cue(texts, ends)
        else:
            self._keep(first, last)

    def _keep(self, first: int, last: int) -> None:
        for at in range(first, last):
            self.keep(self._lines[at] + self._line_ends[at])


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
