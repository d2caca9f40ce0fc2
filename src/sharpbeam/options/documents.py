"""Choices for text around decoding: of lines, and of documents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sharpbeam.options.schema import Schema, advanced_option, option

GUARDS = "decode translations again that lost a part, loop, copy the source or were cut; flag those that stay so"
UNGUARDED = "keep translations that lost a part of the source, loop, copy it or were cut off, and flag none"


@dataclass(frozen=True)
class LineOptions(Schema):
    """How lines are read, translated and written: those of `jobs.translate_file`."""

    resume: bool = option(False, "continue an interrupted --output; some 10 s of work are repeated")
    restart: bool = advanced_option(False, "discard an interrupted --output, or another result")
    encoding: str = option("utf-8", "encoding of the text, such as latin-1")
    errors: Literal["strict", "replace"] = advanced_option("strict", "bytes of another encoding: stop, or put U+FFFD")
    target_prefix: str | None = advanced_option(
        None, "text that every translation begins with; no score of its own, and lines as with raw"
    )
    raw: bool = advanced_option(False, "decode lines as they stand, without splitting or protection")
    keep: tuple[str, ...] = advanced_option((), "protect what matches this regular expression; repeatable")
    flags: bool = advanced_option(False, "end each line in a tab and its faults: loop, copy, span")
    field: str = advanced_option("", "lines are JSON objects; translate this field")
    into: str = advanced_option("translation", "the field of translations, with --field")
    stats: bool = advanced_option(False, "print speed and memory on stderr, as JSON")


@dataclass(frozen=True)
class DocumentOptions(Schema):
    """How the text of a document is translated."""

    split_sentences: bool = advanced_option(
        True,
        "split text into sentences, which are decoded one by one",
        off="take each paragraph, line or cell for one sentence",
    )
    guards: bool = advanced_option(True, GUARDS, off=UNGUARDED)
    max_sentence: int = advanced_option(
        1000, "characters; a longer sentence is cut at a comma or a space", ge=50, le=100_000
    )
    at_once: int = advanced_option(2000, "sentences that are decoded together; bounds memory", ge=1)
