"""Choices for documents: splitting, guards and markup around decoding."""

from __future__ import annotations

from dataclasses import dataclass

from sharpbeam.options.schema import Schema, option


@dataclass(frozen=True)
class DocumentOptions(Schema):
    """How the text of a document is translated."""

    split_sentences: bool = option(
        True,
        "split text into sentences, which are decoded one by one",
        off="take each paragraph, line or cell for one sentence",
        advanced=True,
    )
    guards: bool = option(
        True,
        "decode translations again that lost a part, loop, copy the source or were cut; flag those that stay so",
        off="keep translations that lost a part of the source, loop, copy it or were cut off, and flag none",
        advanced=True,
    )
    max_sentence: int = option(
        1000, "characters; a longer sentence is cut at a comma or a space", ge=50, le=100_000, advanced=True
    )
    at_once: int = option(2000, "sentences that are decoded together; bounds memory", ge=1, advanced=True)
