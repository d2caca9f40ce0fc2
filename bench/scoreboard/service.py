"""A service that people can run: load from this machine, to the loopback interface only."""

from __future__ import annotations

from bench.scoreboard.claim import Claim, pending

NOT_YET = pending("nothing measures it yet")

CLAIMS = [
    Claim("1", "LibreTranslate's client and recorded calls; browser test", "pass; screenshots in docs", NOT_YET),
    Claim("2a", "throughput with 64 clients over one request at a time", "at least x3", NOT_YET),
    Claim("2b", "p95 with 64 clients", "below 4x the lone latency", NOT_YET),
    Claim("2c", "throughput over LibreTranslate's design on the same weights", "at least x5", NOT_YET),
    Claim(
        "3",
        "overload for 10 minutes",
        "each request answered or refused with a reason, memory within 5%, answers byte-identical to the library's",
        NOT_YET,
    ),
    Claim(
        "4",
        "200 documents a format there and back; 5,000 fuzzed HTML fragments",
        "structure identical, tags well nested; invariants hold, no exception",
        NOT_YET,
    ),
    Claim(
        "5",
        "1,000 planted omissions; NTREX with the Firefox model",
        "at least 90% found, 70% repaired; at most 1% false alarms",
        NOT_YET,
    ),
    Claim(
        "6", "Ray: 100,000 sentences over 2 workers with one killed", "complete, identical to the serial one", NOT_YET
    ),
    Claim("7", "NEON table: all kernel tests in emulation", "bit-equal", NOT_YET),
    Claim("8", "a new user: install, serve, page open, document translated", "under 5 minutes", NOT_YET),
]
