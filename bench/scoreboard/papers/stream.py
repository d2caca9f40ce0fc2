"""The rows of STREAM (Yang et al. 2020): beams of variable width, and batches that are refilled."""

from __future__ import annotations

from itertools import pairwise

from bench.papers.stream.parsing import CAPACITY
from bench.scoreboard.claim import Verdict
from bench.scoreboard.papers.row import Because, Line, Wanted, by_option, row

ROWS_AT: Wanted = ("stream_rows", {"model": "de-en"})
TASKS = ("jobs", "geo", "atis", "constituency")
NEAR = 3  # points of F1


def memory(beam: int, rows: int) -> Wanted:
    """A table at equal memory."""
    return "stream_memory", {"set": "tatoeba", "beam_size": beam, "rows": rows}


def shares(line: Line) -> dict[str, float]:
    """Time of each strategy as a share of FIXED's."""
    return {name: 1 / found["ratio"] for name, found in line["contenders"].items()}


def pruning(line: Line) -> Verdict:
    rows = line["contenders"]
    gain = rows["VAR-BATCH"]["bleu"] - rows["FIXED"]["bleu"]
    return Verdict(
        gain >= -0.1,
        f"BLEU {gain:+.2f}, {rows['VAR-BATCH']['expansions'] / rows['FIXED']['expansions']:.2f} of the expansions",
    )


def variable(five: Line, fifty: Line) -> Verdict:
    share = [shares(line)["VAR-BATCH"] for line in (five, fifty)]
    return Verdict(
        share[1] <= 0.346 and share[0] <= 1.117, f"{share[0]:.2f} of FIXED's time at k = 5, {share[1]:.2f} at 50"
    )


def streaming(*lines: Line) -> Verdict:
    holds, each = True, []
    for line in lines:
        share, beam = shares(line), line["options"]["beam_size"]
        saved = 1 - share["VAR-STREAM"] / share["VAR-BATCH"]
        holds &= saved >= {5: 0.19, 50: 0.14}[beam]
        each.append(f"k = {beam}, {line['options']['rows']} rows: {saved:+.1%}")
    return Verdict(holds, f"time saved of VAR-BATCH's at equal memory: {'; '.join(each)}")


def variants(line: Line) -> Verdict:
    share = shares(line)
    fixed, fifo = share["FIXED-STREAM"] / share["FIXED-OURS"], share["VAR-STR-FIFO"] / share["VAR-STREAM"]
    return Verdict(fixed <= 0.784, f"FIXED-STREAM {fixed:.2f} of FIXED-OURS's time, FIFO {fifo:.2f} of VAR-STREAM's")


def cost(line: Line, rows: float) -> float:
    """Microseconds of a row in steps of so many, between the measured numbers."""
    known = sorted((int(n), us) for n, us in line["us_per_row"].items())
    for (few, dear), (many, cheap) in pairwise(known):
        if rows <= many:
            return float(dear + (cheap - dear) * max(rows - few, 0) / (many - few))
    return float(known[-1][1])


def price(before: str, after: str) -> Because:
    """The most that fuller steps can save on this machine, from the cost of a row by the rows of a step."""

    def because(rows: Line, *lines: Line) -> str:
        each = []
        for line in lines:
            per = [line["contenders"][name]["expansions_per_step"] for name in (before, after)]
            us = [cost(rows, one) for one in per]
            each.append(
                f"{line['options']['rows']} rows of memory: steps of {per[0]:.0f} -> {per[1]:.0f} rows, "
                f"{us[0]:.0f} -> {us[1]:.0f} us a row, {1 - us[1] / us[0]:.0%}"
            )
        return f"a row costs nearly the same in any company here, so that fuller steps can save: {'; '.join(each)}"

    return because


def tasks() -> dict[str, Line]:
    """The newest line of each task of parsing that is recorded."""
    return {line["options"]["task"]: line for line in by_option("parsing", "task")}


def per_step(line: Line) -> tuple[dict[str, float], dict[str, float]]:
    """Expansions a step of the two strategies, ours and the paper's."""
    rows = {name: line["strategies"][name] for name in ("VAR-BATCH", "VAR-STREAM")}
    ours = {name: found["expansions_per_step"] for name, found in rows.items()}
    return ours, {name: found["paper"][2] for name, found in rows.items()}


def fuller(_: Line) -> Verdict:
    """Whether streams fill steps by as much as the paper's, on each task that is recorded."""
    holds, each = True, []
    for task, line in tasks().items():
        if line["strategies"]["VAR-STREAM"]["paper"]:
            ours, paper = per_step(line)
            holds &= ours["VAR-STREAM"] / ours["VAR-BATCH"] >= paper["VAR-STREAM"] / paper["VAR-BATCH"]
            both = [f"{one['VAR-BATCH']} -> {one['VAR-STREAM']}" for one in (ours, paper)]
            each.append(f"{task} {both[0]} a step (paper: {both[1]})")
    return Verdict(holds and "atis" in tasks(), "; ".join(each))


def capacity(_: Line) -> str:
    """How full steps are before and after, of what they may hold."""
    each = []
    for task, line in tasks().items():
        if line["strategies"]["VAR-STREAM"]["paper"]:
            ours, _paper = per_step(line)
            most, full = CAPACITY / ours["VAR-BATCH"], ours["VAR-STREAM"] / CAPACITY
            each.append(f"{task}'s at most x{most:.1f}, and VAR-STREAM's are {full:.0%} full")
    return (
        f"a step holds {CAPACITY} here as there and VAR-BATCH's are fuller than the paper's already: {'; '.join(each)}"
    )


def parsing(_: Line) -> Verdict:
    """Every task that is recorded, by the newest line; those that are not miss."""
    newest, each, near = tasks(), [], {}
    for task in (t for t in TASKS if t in newest):
        found = newest[task]["strategies"]["VAR-STREAM"]
        near[task] = found["f1"] >= found["paper"][0] - NEAR
        each.append(
            f"{task} F1 {found['f1']} (paper {found['paper'][0]}), oracle {found['oracle_f1']} ({found['paper'][1]})"
        )
    lacking = [task for task in TASKS if task not in newest]
    said = "; ".join(each) + (f"; not trained: {', '.join(lacking)}" if lacking else "")
    return Verdict(all(near.values()) and not lacking, said)


def other_trees(_: Line) -> str:
    """The trees that the parser could be trained on, and its F1 on the test set of the paper."""
    wsj = tasks()["constituency, WSJ 23"]["strategies"]["VAR-STREAM"]["f1"]
    return (
        "the paper's trees, WSJ 02 to 21, cannot be had: the parser is trained and tested on GUM, 10,224 trees of "
        f"other texts, and has F1 {wsj} on WSJ 23"
    )


ROWS = [
    row("STREAM-1", "pruning heuristics, k = 5", "BLEU as FIXED's", pruning, memory(5, 160)),
    row("STREAM-2", "VAR-BATCH", "1.117 of FIXED's time at k = 5, .346 at 50",
        variable, memory(5, 160), memory(50, 500)),
    row("STREAM-3", "VAR-STREAM against VAR-BATCH", "-19% at k = 5, -14% at k = 50",
        streaming, memory(5, 160), memory(50, 500),
        because=price("VAR-BATCH", "VAR-STREAM"), by=[ROWS_AT, memory(5, 160), memory(50, 500)]),
    row("STREAM-4", "FIFO, FIXED-STREAM", ".784 of FIXED-OURS's time", variants, memory(50, 500),
        because=price("FIXED-OURS", "FIXED-STREAM"), by=[ROWS_AT, memory(50, 500)]),
    row("STREAM-5", "a limit on expansions", "16.9 -> 72.1 a step (ATIS)",
        fuller, ("parsing", {}), because=capacity),
    row("STREAM-6", "semantic and constituency parsing", "F1 within 3 points", parsing, ("parsing", {}),
        because=other_trees),
]  # fmt: skip
