"""Bounds of rows that miss: what the best outcome here is, from lines. It explains a miss that is not beyond it.

A bound is below the paper's figure, and no measured one exceeds it; else there is none.
"""

from __future__ import annotations

from collections.abc import Callable

from paper_row import MISSES, Row, Verdict, fastest, last
from paper_rows import SMALL, hundred, merging, news, sharp
from result_lines import Line

Bound = tuple[str, list[Line]] | None
CAPACITY = 100  # expansions of a step of the parsers (STREAM, section 4)
EMBEDDED = 0.24  # of the multiply-adds of S1: encoder 320 x 1,536 of 2.06 million, decoder 320 x 2,240 of 2.97 million
FULL = 29  # rows of a step, from which on all of STREAM's steps are, on average


def l2s_2() -> Bound:
    """Learned clusters gain over their start at most what a call without sets does, both in NumPy."""
    line = hundred()
    own, start = (fastest(line["points"], name, 0.998, 0.99) for name in ("l2s", "spherical"))
    if own is None or start is None:
        return None
    most = next(p for p in line["points"] if p["method"] == "clusters alone")["ratio"] / start["ratio"]
    carries = own["most_ratio"] / start["least_ratio"] <= most < 10.6 / 4
    return (f"at most x{most:.1f}: without sets", [line]) if carries else None


def l2s_12() -> Bound:
    """Logits of low rank for all tokens, which the layer needs, take a time of their own."""
    line = last("perplexity", model=SMALL)
    most, own = (line["completed"][name]["ratio"] for name in ("low rank alone", "l2s"))
    return (f"at most x{most:.2f}: low rank alone", [line]) if own <= most < 5.69 else None


def cube_3() -> Bound:
    """Approximate cube pruning gains at most what it saves of the rows."""
    rows = merging(30)
    points, time = rows["points"], last("cube-headline", beam_size=30, set="ntrex-en-pt")
    most = points["NBS+SN"]["model_rows_per_step"] / points["ACP+SN"]["model_rows_per_step"]
    carries = time["contenders"]["ACP+SN"]["most_ratio"] <= most < 3.5
    return (f"at most x{most:.2f}: the rows of a step", [rows]) if carries else None


def sharp_1() -> Bound:
    """An instruction multiplies twice as many int16 as float32, and a byte of memory holds twice as many."""
    steps = sharp()["steps"]
    carries = steps["SHARP-1 int16"]["most_ratio"] / steps["SHARP-0"]["least_ratio"] <= 2.0
    return ("at most x2: int16 an instruction", []) if carries else None


def sharp_2() -> Bound:
    """Kept embeddings spare their share of the products' time, which is what the loops that step 4 spares leave."""
    steps = (line := sharp())["steps"]
    first, second, loops, fourth = (1 / steps[f"SHARP-{n} int16"]["ratio"] for n in (1, 2, 3, 4))
    most = first / (first - EMBEDDED * (first - (loops - fourth)))
    carries = first / second <= most < 1.25
    return (f"at most x{most:.2f}: {EMBEDDED:.0%} of the products", [line]) if carries else None


def stream_3() -> Bound:
    """Fuller steps save at most what a row costs less in them."""
    line, saved = _saved()
    measured = [1 - shares["VAR-STREAM"] / shares["VAR-BATCH"] for shares in news()[1]]
    return (f"at most {saved:.0%}: a row's time in full steps", [line]) if max(measured) <= saved < 0.14 else None


def stream_4() -> Bound:
    """As of VAR-STREAM."""
    line, saved = _saved()
    fifty = news()[1][1]
    fixed, fifo = fifty["FIXED-STREAM"] / fifty["FIXED-OURS"], fifty["VAR-STR-FIFO"] / fifty["VAR-STREAM"]
    least, most = 1 - saved, 1 / (1 - saved)
    carries = fixed >= least > 0.784 and fifo <= most < 1.33
    return (f"{least:.2f} at the least, {most:.2f} at most: as above", [line]) if carries else None


def stream_5() -> Bound:
    """A step of STREAM's parsers has at most CAPACITY expansions, so fuller ones gain at most what VAR-BATCH leaves."""
    used, most, carries = [], [], True
    for task in ("atis", "constituency"):
        line = last("parsing", task=task)
        before, after = (line["strategies"][name] for name in ("VAR-BATCH", "VAR-STREAM"))
        most.append(CAPACITY / before["expansions_per_step"])
        carries &= after["expansions_per_step"] <= CAPACITY and most[-1] < after["paper"][2] / before["paper"][2]
        used.append(line)
    return (f"at most x{most[0]:.2f}, x{most[1]:.2f}: {CAPACITY} in a step", used) if carries else None


def _saved() -> tuple[Line, float]:
    """The share of a row's time that the largest steps save of those with FULL rows: Firefox's en-pt."""
    line = last("stream_rows", beam_size=5)
    us = line["us_per_row"]
    return line, 1 - us[max(us, key=int)] / us[str(FULL)]


BOUNDS: dict[str, Callable[[], Bound]] = {
    "L2S-2": l2s_2,
    "L2S-12": l2s_12,
    "CUBE-3": cube_3,
    "SHARP-1": sharp_1,
    "SHARP-2": sharp_2,
    "STREAM-3": stream_3,
    "STREAM-4": stream_4,
    "STREAM-5": stream_5,
}


def judged(row: Row) -> Verdict:
    """The verdict of a row; a miss with the bound that explains it."""
    verdict = row.judge()
    bound = BOUNDS[row.id]() if verdict.word == MISSES and row.id in BOUNDS else None
    return Verdict(verdict.figure, f"{MISSES} ({bound[0]})", [*verdict.used, *bound[1]]) if bound else verdict
