"""Write the tables of figures in the pages from bench/results: `python .ci/tables.py [--check] [--drop]`.

A table stands between `<!-- table: KIND NAME -->` and `<!-- end of table -->`, and each figure is of the newest line of
its kind, with that line's commit. Lines of a commit that the history does not have, or of a tree with uncommitted
changes, count for nothing: nobody could take them again. `--drop` deletes them from bench/results. `--check` writes
nothing, and exits with 1 if a page differs or such a line is left.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable

from paper_bounds import judged
from paper_rows import ROWS
from result_lines import RESULTS, ROOT, Line, commits, select, sound
from targets import table as aims

PAGES = ("README.md", "docs/benchmarks.md", "docs/papers.md")
BLOCK = re.compile(r"(<!-- table: (\S+) (\S+) -->\n).*?(<!-- end of table -->)", re.S)
AGAIN = "to be measured again"

# Contenders as results name them and as the tables do: the best native peer first, ours last.
REAL = {
    "CTranslate2 int8": "CTranslate2, int8",
    "Marian packed8avx512": "Marian, its fastest type",
    "Marian intgemm8avx2": "Marian, its fastest type",
    "Bergamot, native": "Bergamot, native",
    "Bergamot": "Bergamot, WebAssembly (Firefox)",
    "ours": "**Sharpbeam**, default layer",
    "ours, shortlist": "**Sharpbeam**, `shortlist`",
}
PEERS = {
    "CTranslate2": "CTranslate2, int8",
    "CTranslate2 with map": "CTranslate2, int8, vocabulary map",
    "Marian": "Marian, its fastest type",
    "Marian with shortlist": "Marian, shortlist",
    "Hugging Face": "Hugging Face `generate`, float32",
    "ONNX Runtime": "ONNX Runtime, int8",
    "ours scan": "**Sharpbeam**, `scan`",
    "ours shortlist": "**Sharpbeam**, `shortlist`",
    "ours screen": "**Sharpbeam**, `screen`",
}
SERVED = {
    "sharpbeam, 64": "64 clients",
    "sharpbeam, 1": "1 client",
    "sharpbeam, 64 at three times the pace": "64 clients offering three times what one at a time serves",
    "one at a time, 64": "one request at a time (LibreTranslate's design), 64 clients",
}


def markdown(rows: list[list[str]]) -> str:
    """A table, its first row being the head."""
    rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def caption(used: list[Line], clock: str = "") -> str:
    """The commit, the machine and the clock, under a table."""
    last = used[-1]
    cores = "one thread" if last["threads"] == 1 else f"{last['threads']} threads"
    counts = dict.fromkeys(str(line["options"]["sentences"]) for line in used if "sentences" in line["options"])
    text = f"{' and '.join(counts)} sentences, " if counts else ""
    return f"\nCommit {commits(used)}; {text}{last['cpu']}, {last['isa']}, {cores}{clock}.\n"


def engines(used: list[Line], names: dict[str, str], keys: tuple[str, str]) -> list[list[str]]:
    """A row for each engine: its speed in each line, peak memory, BLEU."""
    many, beam = keys
    in_words = all("words" in line["options"] for line in used)
    searches = ["greedy" if line["options"][beam] == 1 else f"beam {line['options'][beam]}" for line in used]
    head = [f"{search}, {line['options'][many]} at a time" for search, line in zip(searches, used, strict=True)]
    rows = [["source words per second" if in_words else "ms a sentence", *head, "peak MiB", "BLEU"]]
    for name, label in names.items():
        own = [line["contenders"].get(name, {}) for line in used]
        if any(own):
            times = [_speed(one, line) if one else "" for one, line in zip(own, used, strict=True)]
            peaks = [one["peak_mib"] for one in own if "peak_mib" in one]
            bleu = sorted({f"{one['bleu']:.1f}" for one in own if "bleu" in one})
            quality = bleu[0] if len(bleu) == 1 else f"{bleu[0]} to {bleu[-1]}" if bleu else ""
            rows.append([label, *times, f"{max(peaks):.0f}" if peaks else "", quality])
    kept = [i for i in range(len(rows[0])) if any(row[i] for row in rows[1:])]
    return [[row[i] for i in kept] for row in rows]


def _speed(one: Line, line: Line) -> str:
    """Source words per second where the line counted them, else ms a sentence."""
    options, ms = line["options"], one["ms_per_sentence"]
    return f"{1e3 * options['words'] / options['sentences'] / ms:,.0f}" if "words" in options else f"{ms:.1f}"


def real(model: str) -> str:
    """A model that people have, next to the engines that run the same weights; MODEL:ISA for another than AVX-512."""
    name, _, isa = model.partition(":")
    lines = [line for line in select("real", model=name) if line["isa"].startswith(isa or "avx512")]
    last = {(line["options"]["beam"], line["options"]["size"]): line for line in lines}
    used = [last[key] for key in sorted(last)]
    return markdown(engines(used, REAL, ("size", "beam"))) + caption(used, ", processor time") if used else f"{AGAIN}\n"


def peers(model: str) -> str:
    """Ours next to the engines that people use; MODEL:ISA for another than AVX-512."""
    name, _, isa = model.partition(":")
    lines = [x for x in select("peers", name=name) if x["isa"].startswith(isa or "avx512")]
    lines = [x for x in lines if x["options"]["beam"] == 5] or lines
    used = list({x["options"]["batch"]: x for x in lines}.values())
    return markdown(engines(used, PEERS, ("batch", "beam"))) + caption(used) if used else f"{AGAIN}\n"


def served(model: str) -> str:
    """The server under load."""
    used = select("service", what="throughput", model=model)[-1:]
    if not used:
        return f"{AGAIN}\n"
    rows = [["", "sentences a second", "median ms", "95% within ms"]]
    for name, label in SERVED.items():
        one = used[0]["figures"][name]
        rows.append([label, f"{one['per_second']:.0f}", f"{one['p50_ms']:.1f}", f"{one['p95_ms']:.0f}"])
    return markdown(rows) + caption(used)


def methods(models: str) -> str:
    """The fastest setting of each method with P@5 of .99 or more, over the full softmax in NumPy."""
    used = [line for model in models.split(",") for line in select("curves", model=model)[-1:]]
    names = list(dict.fromkeys(point["method"] for line in used for point in line["points"]))
    rows = [["", *(line["options"]["model"] for line in used)]]
    for name in names:
        best = []
        for line in used:
            good = [p for p in line["points"] if p["method"] == name and p["p_at_5"] >= 0.99]
            point = max(good, key=lambda p: float(p["ratio"]), default=None)
            best.append(f"x{point['ratio']:.1f} ({point['p_at_5']:.3f})" if point else "")
        if any(best) and name not in ("certified", "proven"):  # layers that are gone
            rows.append([name, *best])
    return markdown(rows) + caption(used) if used else f"{AGAIN}\n"


def papers(paper: str) -> str:
    """The rows of a paper with their verdicts."""
    rows = [["row", "paper", "here", "", "commit"]]
    for row in ROWS:
        if row.id.startswith(f"{paper}-"):
            verdict = judged(row)
            rows.append([f"{row.id} {row.system}", row.figure, verdict.figure, verdict.word, commits(verdict.used)])
    return markdown(rows)


def targets(_: str) -> str:
    """What was aimed at over other engines."""
    rows, used = aims()
    return markdown(rows) + f"\nCommit {commits(used)}; {used[-1]['cpu']}, one thread.\n" if used else f"{AGAIN}\n"


KINDS: dict[str, Callable[[str], str]] = {
    "real": real,
    "peers": peers,
    "served": served,
    "methods": methods,
    "papers": papers,
    "targets": targets,
}


def unsound(drop: bool) -> int:
    """How many lines of bench/results count for nothing; with `drop`, they are deleted."""
    count = 0
    for path in sorted(RESULTS.glob("*.jsonl")):
        every = path.read_text(encoding="utf-8").splitlines(keepends=True)
        kept = [text for text in every if sound(json.loads(text))]
        count += len(every) - len(kept)
        if drop and not kept:
            path.unlink()
        elif drop and len(kept) < len(every):
            path.write_text("".join(kept), encoding="utf-8")
    return count


def main(arguments: list[str]) -> int:
    """Write the tables; with --check, compare them."""
    check = "--check" in arguments
    count = unsound("--drop" in arguments)
    differ = []
    for page in PAGES:
        text = (ROOT / page).read_text(encoding="utf-8")
        new = BLOCK.sub(lambda m: m[1] + KINDS[m[2]](m[3]) + m[4], text)
        if new != text:
            differ.append(page)
            if not check:
                (ROOT / page).write_text(new, encoding="utf-8")
    verb = "deleted" if "--drop" in arguments else "left out"
    print(f"tables: {len(differ)} pages {'differ' if check else 'written'}, {count} lines of lost code {verb}")
    if check and differ:
        print(f"{', '.join(differ)}: run python .ci/tables.py")
    if check and count:
        print("bench/results has lines whose commit is lost or whose tree had changes: run python .ci/tables.py --drop")
    return 1 if check and (differ or count) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
