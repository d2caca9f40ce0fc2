"""The choices of fitting a shortlist."""

from __future__ import annotations

from dataclasses import dataclass

from sharpbeam.options.schema import Schema, option


@dataclass(frozen=True)
class ShortlistOptions(Schema):
    """How large the sets are, and how tokens are aligned."""

    translations: int = option(20, "tokens for each source token besides those in every set, the likeliest ones", ge=1)
    frequent: int = option(500, "most frequent target tokens, which are in every set", ge=0)
    rounds: int = option(
        5, "of word alignment (IBM model 1, expectation and maximisation)", ge=1, le=1000, advanced=True
    )
    max_pairs: int = option(1_000_000, "sentence pairs that are read, the first ones", ge=1)
