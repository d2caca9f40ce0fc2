"""Choices for documents: what is done with text before and after it is decoded."""

from __future__ import annotations

from dataclasses import dataclass

from sharpbeam.options.schema import Schema, option


@dataclass(frozen=True)
class DocumentOptions(Schema):
    """How the text of a document is translated."""

    split_sentences: bool = option(
        True,
        "whether text is split into sentences, which are decoded one by one; without it each paragraph, line or cell "
        "is taken for one",
    )
    guards: bool = option(
        True,
        "whether translations that lost a part of the source, loop, copy it or were cut off are decoded again, and "
        "flagged if they stay so",
    )
    max_sentence: int = option(
        1000, "characters; a longer sentence is cut at a comma or a space", ge=50, le=100_000, advanced=True
    )
    at_once: int = option(2000, "sentences that are decoded together; bounds memory", ge=1, advanced=True)
