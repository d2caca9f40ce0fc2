"""Models that people have, as they come: trained models only, same text, same weights, interleaved, one thread."""

from __future__ import annotations

from bench.scoreboard.claim import Claim, pending

NOT_YET = pending("nothing measures it yet")

CLAIMS = [
    Claim(
        "1",
        "`convert FOLDER` on Firefox en-pt and pt-en, greedy and beam 5, NTREX and Tatoeba, against Bergamot",
        "BLEU within 0.1; share of identical sentences with and without its shortlist, and why the rest differ",
        NOT_YET,
    ),
    Claim("2a", "en-pt and pt-en, no flags, one at a time, greedy, over Bergamot", "at least x9", NOT_YET),
    Claim("2b", "the same, beam 5", "at least x6", NOT_YET),
    Claim("2c", "en-pt and pt-en, no flags, in batches, greedy, over Bergamot", "at least x14", NOT_YET),
    Claim("2d", "the same, beam 5", "at least x8", NOT_YET),
    Claim("2e", "the shortlist with its net", "no slower than the shortlist before", NOT_YET),
    Claim("2f", "en-pt and pt-en over Marian (its best type, its shortlist)", "at least x2", NOT_YET),
    Claim(
        "3a",
        "trained de-en and multilingual transformers, no flags, batch 1, beam 5, over CTranslate2 int8",
        "at least x3 at equal BLEU",
        NOT_YET,
    ),
    Claim("3b", "the same at batch 32", "at least x2.5", NOT_YET),
    Claim("4a", "OPUS shape 6+6, random weights, exact answers, batch 1", "at least x6", NOT_YET),
    Claim("4b", "OPUS shape 6+6, random weights, exact answers, batch 32", "at least x3", NOT_YET),
    Claim("4c", "OPUS shape 12+1, random weights, batch 1 and 32", "at least x6 and x3", NOT_YET),
    Claim("4d", "NLLB shape, random weights", "at least x5", NOT_YET),
    Claim(
        "5", "families: 1,000 sentences of each; broken and hostile files", "0 wrong; 10,000 files a format", NOT_YET
    ),
    Claim("6", "`translate` with no flags, on every model", "within 10% of the best that `tune` finds", NOT_YET),
    Claim("7", "peak memory on the same model", "below CTranslate2's and Bergamot's", NOT_YET),
]
