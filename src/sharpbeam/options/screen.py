"""The choices of fitting a screen."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from sharpbeam.options.schema import option, require

METHODS = ("kmeans", "spherical", "l2s")


@dataclass(frozen=True)
class ScreenOptions:
    """What a screen is fitted on, and how. What is left to the search: the cheapest that is good enough wins."""

    method: Literal["auto", "kmeans", "spherical", "l2s"] = option(
        "auto", "how hidden vectors are clustered; l2s needs PyTorch; auto = searched"
    )
    clusters: int = option(0, "number of clusters; 0 = searched")
    budget: float = option(0.0, "average words in a set; 0 = searched")
    fidelity: float = option(
        0.999, "share of steps that must be as with the exact layer, with 95% confidence; 0 = no test, no fallback"
    )
    tolerance: float = option(
        0.05,
        "of the fidelity: how much the log of a row's normaliser may be off at most, in nats; beam searches and scores "
        "see it, greedy search does not (inf)",
    )
    top_k: int = option(
        0,
        "k of the fidelity: the best words of a row that must be right where they matter; 0 = what a beam search looks "
        "at, 2 * beam_size; 5 for language models",
    )
    set_k: int = option(0, "a set is made of the best so many words of each step; 0 = top_k")
    beam_size: int = option(
        5, "of the search that the hidden vectors are collected from; language models read the text"
    )
    vectors: int = option(400_000, "hidden vectors to collect, at least; fewer where the text ends")
    rounds: int = option(5, "of l2s: turns of learning clusters and sets")
    seed: int = option(1, "of everything that is drawn")

    def __post_init__(self) -> None:
        require(self.method in ("auto", *METHODS), "method", self.method, "auto, kmeans, spherical or l2s")
        require(self.clusters >= 0, "clusters", self.clusters, "0 or more")
        require(self.budget >= 0, "budget", self.budget, "0 or more")
        require(0 <= self.fidelity < 1, "fidelity", self.fidelity, "in [0, 1)")
        require(self.tolerance > 0, "tolerance", self.tolerance, "above 0")
        require(self.top_k >= 0, "top_k", self.top_k, "0 or more")
        most = self.top_k or self.set_k
        require(0 <= self.set_k <= most, "set_k", self.set_k, f"between 0 and top_k ({self.top_k})")
        require(self.beam_size >= 1, "beam_size", self.beam_size, "1 or more")
        require(self.vectors >= 1, "vectors", self.vectors, "1 or more")
        require(self.rounds >= 1, "rounds", self.rounds, "1 or more")
        require(self.seed >= 0, "seed", self.seed, "0 or more")

    def resolved(self, language: bool, vocab: int) -> ScreenOptions:
        """With the top_k that 0 stands for; raises OptionError for more words than the `vocab` that there are."""
        chosen = self.top_k or min(5 if language else 2 * self.beam_size, vocab)
        require(chosen <= vocab, "top_k", chosen, f"at most the words of the output layer, {vocab}")
        return replace(self, top_k=chosen)
