"""Renew the table of figures in README.md and docs/benchmarks.md: `python .ci/headline.py`.

The rows are the newest lines of `bench/results/peers.jsonl` for the trained model that the marker names:
<!-- headline: de-en-transformer --> ... <!-- end of headline -->.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "docs/benchmarks.md")
BLOCK = re.compile(r"(<!-- headline: (\S+) -->\n).*?(<!-- end of headline -->)", re.S)
# Names in the results, and in the table.
CONTENDERS = {
    "CTranslate2": "CTranslate2, int8",
    "CTranslate2 with map": "CTranslate2, int8, vocabulary map",
    "ours scan": "**Sharpbeam**, `scan` (default)",
    "ours shortlist": "**Sharpbeam**, `shortlist`",
    "ours screen, variable widths": "**Sharpbeam**, `screen`, beams of variable width",
}


def newest(model: str, batch: int) -> dict[str, Any]:
    """The last line of the model at beam 5 and this batch size."""
    lines = (ROOT / "bench/results/peers.jsonl").read_text(encoding="utf-8").splitlines()
    wanted = {"name": model, "batch": batch, "beam": 5}
    found = [line for line in map(json.loads, lines) if wanted.items() <= line["options"].items()]
    if not found:
        sys.exit(f"bench/results/peers.jsonl has no line of {model} at batch {batch}.")
    return dict(found[-1])


def cell(contender: dict[str, Any]) -> str:
    """The ratio with its spread, and the time of a sentence."""
    ms = f"{contender['ms_per_sentence']:.1f} ms"
    if contender["ratio"] == 1.0 == contender["most_ratio"]:
        return f"1 ({ms})"
    return f"x{contender['ratio']:.1f} ({contender['least_ratio']:.1f} to {contender['most_ratio']:.1f})"


def table(model: str) -> str:
    """The rows in Markdown."""
    one, many = newest(model, 1), newest(model, 32)
    rows = ["| beam 5, one thread | one sentence at a time | 32 at a time | BLEU |", "|---|---|---|---|"]
    for name, shown in CONTENDERS.items():
        single, batch = one["contenders"].get(name), many["contenders"].get(name)
        if single and batch:
            rows.append(f"| {shown} | {cell(single)} | {cell(batch)} | {single['bleu']:.1f} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    """Rewrite the tables between the markers."""
    for page in PAGES:
        path = ROOT / page
        text = path.read_text(encoding="utf-8")
        path.write_text(BLOCK.sub(lambda m: m[1] + table(m[2]) + m[3], text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
