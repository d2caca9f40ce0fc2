"""The choices of fitting a shortlist."""

from __future__ import annotations

from dataclasses import dataclass

from sharpbeam.options.schema import option, require


@dataclass(frozen=True)
class ShortlistOptions:
    """How large the sets are, and how words are aligned."""

    translations: int = option(20, "words for each source word beyond those in every set, the likeliest ones")
    frequent: int = option(500, "most frequent target words, which are in every set")
    rounds: int = option(5, "of word alignment (IBM model 1, expectation and maximisation)")
    max_pairs: int = option(1_000_000, "sentence pairs that are read, the first ones")

    def __post_init__(self) -> None:
        require(self.translations >= 1, "translations", self.translations, "1 or more")
        require(self.frequent >= 0, "frequent", self.frequent, "0 or more")
        require(1 <= self.rounds <= 1000, "rounds", self.rounds, "between 1 and 1000")
        require(self.max_pairs >= 1, "max_pairs", self.max_pairs, "1 or more")
