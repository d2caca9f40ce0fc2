"""Subtitles, SRT, WebVTT and ASS: times and settings stay; a cue keeps its number of lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from html import escape

from sharpbeam.documents.formats.interface import Template
from sharpbeam.documents.formats.messages import with_placeholders
from sharpbeam.errors import InputError
from sharpbeam.text.segment import Part, Segment, is_translatable, written
from sharpbeam.text.sentences import split_sentences

_TIME = r"(?:\d+:)?[0-5]?\d:[0-5]\d[.,]\d{1,3}"
_TIMES = re.compile(rf"[ \t]*{_TIME}[ \t]*-->[ \t]*{_TIME}(?:[ \t].*)?")
_END = re.compile(r"(\r\n|\n|\r)")
_NEARLY = re.compile(r"[ \t]*\d+:\d+")  # the beginning of times
_CODES = r"(?P<open>\{\\[bisu]1\})|(?P<close>\{\\[bisu]0\})|(?P<point>\{\\[^{}\n]*\})"
_MARKUP = re.compile(rf"<[^<>\n]*>|{_CODES}|\u266a|&#?\w+;")
_OVERRIDE = re.compile(rf"{_CODES}|\{{[^{{}}]*\}}|\\h")
_BREAK = re.compile(r"(\\[nN])")
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")
_PLAIN = str.maketrans({"{": "(", "}": ")", "\\": "/"})
_SPEECH = re.compile(r"\s*[-\u2013\u2014]")  # a line of its own speaker


class _Cues(Template):
    """Texts in lines, of which each keeps its number."""

    markup: re.Pattern[str]

    def cue(self, lines: Sequence[str], ends: Sequence[str]) -> None:
        """Add the lines of a cue with their ends: where a line ends a sentence, or begins a speaker's, it stays one."""
        if not is_translatable("".join(lines)):
            self.keep("".join(line + end for line, end in zip(lines, ends, strict=True)))
            return
        begins = [
            at for at, line in enumerate(lines) if not at or _SPEECH.match(line) or self._parted(lines[at - 1], line)
        ]
        for first, last in zip(begins, [*begins[1:], len(lines)], strict=True):
            dash = _SPEECH.match(lines[first])
            self.keep(dash[0] if dash else "")
            self._put([lines[first][dash.end() if dash else 0 :], *lines[first + 1 : last]], ends[first : last - 1])
            self.keep(ends[last - 1])

    def _parted(self, line: str, following: str) -> bool:
        """Whether a sentence, a sound or a song ends with a line, and the one after it begins another."""
        one, other = (self.markup.sub("", each).strip() for each in (line, following))
        if one.endswith(("...", "\u2026")):  # the sentence may continue
            return False
        ended = len(one) in (end for _, end in split_sentences(f"{one} {other}"))
        return line.rstrip().endswith(("]", "\u266a")) or (ended and not next(filter(str.isalpha, other), "").islower())

    def escaped(self, text: str) -> str:
        """A text in which nothing is markup."""
        raise NotImplementedError

    def _put(self, lines: Sequence[str], ends: Sequence[str]) -> None:
        """Add lines as one text; as a text for each if markup that is not closed cuts it."""
        built = with_placeholders(" ".join(lines), self.markup)
        if ends and sum(isinstance(item, Segment) for item in built) > 1:
            for line, end in zip(lines, [*ends, ""], strict=True):
                self._put([line], [])
                self.keep(end)
            return
        for item in built:
            if isinstance(item, Segment):
                self.keep(self.mark([item], partial(self._text, [*ends])))
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
    """Cues in SRT or WebVTT: times, perhaps after a line with a name, and text up to an empty line or the next cue."""

    markup = _MARKUP

    def __init__(self, content: str) -> None:
        super().__init__(content)
        self._vtt = content.lstrip("\ufeff").startswith("WEBVTT")
        parts = [*_END.split(content), ""]
        lines, ends = parts[::2], parts[1::2]
        times = [*(bool(_TIMES.fullmatch(line)) for line in lines), False]
        first, text = 0, list[int]()  # the first line after an empty one, and lines of text
        seen = in_cue = in_text = False
        for at, line in enumerate(lines):
            if not line.strip(" \t"):  # in SRT text continues after it
                first, in_cue, in_text = at + 1, False, seen and not self._vtt
            elif times[at]:
                seen = in_cue = in_text = True
            elif times[at + 1] and (at == first or line.strip().isdigit()):
                in_cue, in_text = True, False
            else:
                note = self._vtt and lines[first].startswith("NOTE")
                early = not in_cue and at < first + 2 and not note  # where times are
                numbered = at > first and lines[at - 1].strip().isdigit() and _NEARLY.match(line)
                if (early and (numbered or "-->" in line)) or (in_text and numbered and "->" in line):
                    message = "it must be times, as 00:00:01,000 --> 00:00:02,500."
                    raise InputError(f"line {at + 1} is {line[:60]!r}; {message}")
                if in_text:
                    text.append(at)
                    continue
            self.cue([lines[each] for each in text], [ends[each] for each in text])
            text.clear()
            self.keep(line + ends[at])
        self.cue([lines[each] for each in text], [ends[each] for each in text])
        if is_translatable(content) and not (self._vtt or seen):
            raise InputError("these are no subtitles: no line has times, as 00:00:01,000 --> 00:00:02,500 is.")

    def escaped(self, text: str) -> str:
        """A text without an arrow, as times have; in WebVTT with entities."""
        text = re.sub(r"-->", "\u2192", text)
        return escape(text, quote=False) if self._vtt else text


def _wrapped(text: str, ends: list[str]) -> str:
    """The text in len(ends) + 1 lines of about the same length, or fewer if it has fewer words."""
    words, lines, at, rest = text.split(" "), list[str](), 0, len(text)  # rest: of the words from `at`
    for left in range(min(len(ends) + 1, len(words)), 0, -1):
        first, size = at, len(words[at])
        at += 1
        while len(words) - at >= left and (left == 1 or size + 1 + len(words[at]) / 2 <= rest / left):
            size += 1 + len(words[at])
            at += 1
        lines.append(" ".join(words[first:at]))
        rest -= size + 1
    return "".join(line + end for line, end in zip(lines, [*ends[: len(lines) - 1], ""], strict=True))
