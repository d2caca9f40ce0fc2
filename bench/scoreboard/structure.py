"""Structure: the library in the field's own words, one of each thing, and a first page that makes a stranger stay."""

from __future__ import annotations

from bench.scoreboard.claim import Claim, pending

CLAIMS = [Claim("1", "structure", "in work", pending("nothing measures it yet"))]
