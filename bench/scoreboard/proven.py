"""Exact by proof at a fraction of the bytes: trained models only, since random weights are no test of a proof."""

from __future__ import annotations

from bench.scoreboard.claim import Claim, pending

NOT_YET = pending("nothing measures it yet")

CLAIMS = [
    Claim(
        "1a",
        "proven mode against exact float32, 10,000 sentences a model, greedy and beam 5, and adversarial layers",
        "0 differences of tokens, scores within 1e-3",
        NOT_YET,
    ),
    Claim("1b", "1,000,000 steps", "0 violations of a floor", NOT_YET),
    Claim("2a", "bytes and time of the output layer against scan, batch 1, greedy, en-pt", "at least x3", NOT_YET),
    Claim("2b", "the same, de-en", "at least x4", NOT_YET),
    Claim("2c", "the same, beam 5", "at least x2.5", NOT_YET),
    Claim("2d", "the same, lm-enwiki (80,000 x 400)", "at least x10", NOT_YET),
    Claim("2e", "batch 32", "no slower than scan", NOT_YET),
    Claim("3a", "whole translation on en-pt, batch 1, greedy, over scan", "at least x1.6", NOT_YET),
    Claim("3b", "the same, beam 5", "at least x1.4", NOT_YET),
    Claim("4a", "the shortlist with net on en-pt", "at least as fast as without one to within 15%", NOT_YET),
    Claim(
        "4b",
        "all that matters is in it, NTREX, which no fit has seen",
        "at least 99.9% of the rows (calibrated) or 100% (proven); without a net 99.0%",
        NOT_YET,
    ),
    Claim(
        "5",
        "tokens that matter, rows skipped, tokens left after each stage, rows with an exact sum",
        "printed by screen-report, with a picture",
        NOT_YET,
    ),
    Claim(
        "6",
        "every kernel table gives the same bits; ASan and UBSan; hostile previews",
        "equal, clean; refused or merely slow, never wrong",
        NOT_YET,
    ),
]
