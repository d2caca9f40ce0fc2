"""The five papers to the letter: 38 rows, each against the paper's own claim."""

from __future__ import annotations

from bench.scoreboard.claim import Claim, pending

CLAIMS = [
    Claim(
        "all",
        "38 rows of the five papers: the paper's figure, ours, like for like",
        "at least 36 of 38 hold or have their reason measured; no row is TOY or MISSING but those that need a GPU",
        pending("the rows are not written yet"),
    ),
]
