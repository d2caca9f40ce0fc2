"""The choices of fitting a screen, or a shortlist."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from sharpbeam.options.schema import Schema, advanced_option, option

Method = Literal["auto", "kmeans", "spherical", "l2s"]
METHODS = get_args(Method)[1:]


@dataclass(frozen=True)
class ScreenOptions(Schema):
    """How a screen is fitted. Of settings left to the search the cheapest that is good enough wins."""

    method: Method = option("auto", "how hidden vectors are clustered; l2s needs PyTorch; auto = searched")
    clusters: int = option(0, "number of clusters; 0 = searched", ge=0)
    budget: float = option(0.0, "average tokens in a set; 0 = searched", ge=0)
    fidelity: float = option(
        0.999,
        "share of steps that must equal the exact layer's, with 95% confidence; 0 = no test, no fallback",
        ge=0,
        lt=1,
    )
    tolerance: float = option(
        0.05, "largest error of a row's log normalizer, in nats; inf for greedy search, which does not see it", gt=0
    )
    top_k: int = option(0, "best tokens of a row that must be right; 0 = 2 * beam_size, or 5 for language models", ge=0)
    set_k: int = advanced_option(0, "a set is made of this many best tokens of each step; 0 = top_k", ge=0)
    neighbors: bool = advanced_option(
        True,
        "the tokens of a vector count a little in the four next clusters, too",
        off="make each set of its own members' tokens only, as published",
        other_names=("neighbours",),
    )
    beam_size: int = option(
        5, "of the search that the hidden vectors are collected from; language models read the text", ge=1
    )
    vectors: int = option(
        400_000, "hidden vectors, at least, or all of the text; beyond 400,000 they are counted, not stored", ge=1
    )
    rounds: int = advanced_option(5, "of l2s: rounds of learning clusters and sets", ge=1)
    seed: int = advanced_option(1, "of everything that is drawn", ge=0)

    def check(self) -> None:
        """Raise OptionError if a set would be made of more tokens than must be right."""
        self.require(self.set_k <= (self.top_k or self.set_k), "set_k", f"between 0 and top_k ({self.top_k})")

    def resolved(self, language: bool, vocab: int) -> ScreenOptions:
        """With the top_k that 0 stands for; raises OptionError for more tokens than the `vocab` that there are."""
        options = replace(self, top_k=self.top_k or min(5 if language else 2 * self.beam_size, vocab))
        options.require(options.top_k <= vocab, "top_k", f"at most the tokens of the output layer, {vocab}")
        return options


@dataclass(frozen=True)
class ShortlistOptions(Schema):
    """How large the sets are, and how tokens are aligned."""

    translations: int = option(20, "tokens for each source token besides those in every set, the likeliest ones", ge=1)
    frequent: int = option(500, "most frequent target tokens, which are in every set", ge=0)
    rounds: int = advanced_option(5, "of word alignment (IBM model 1, expectation and maximization)", ge=1, le=1000)
    max_pairs: int = option(1_000_000, "sentence pairs that are read, the first ones", ge=1)
