"""What was aimed at over other engines, with AVX2 alone and with AVX-512, and what holds: read from lines.

A cell has the figure of the newest line, and, where that line has a bound (bench/harness/bound.py), the factor if our
rows and steps took no more than that; and a profile of ours: the shares of encoder, decoder, output layer and search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from result_lines import Line, select

ISAS = ("avx2", "avx512")
NATIVE = ("Bergamot, native", "slimt", "Marian")  # the beginnings of their names
COUNT, TEXT = 100, "ntrex"  # sentences of Firefox's models
SENTENCES = {("opus-6+6", 1): 8, ("opus-6+6", 32): 64, ("nllb-600m", 1): 4, ("base-memory", 1): 8}


@dataclass(frozen=True)
class Cell:
    """A figure, the line that it is from, the most that there can be, and the profile, if the line has them."""

    figure: float
    line: Line
    most: float | None = None
    shares: str = ""


@dataclass(frozen=True)
class Target:
    """A row: factors aimed at with AVX2 and with AVX-512, and what reads a cell from the lines of one of them."""

    label: str
    aims: tuple[float, float]
    read: Callable[[str], Cell | None]


def _newest(isa: str, benchmark: str, **options: object) -> Line | None:
    lines = [line for line in select(benchmark, threads=1, **options) if line["isa"].startswith(isa)]
    return lines[-1] if lines else None


def _cell(line: Line, peers: list[str], own: str, bound: Line | None) -> Cell:
    ms = {name: float(one["ms_per_sentence"]) for name, one in line["contenders"].items()}
    peer = min(ms[name] for name in peers)
    if bound is None:
        return Cell(peer / ms[own], line)
    parts = dict.fromkeys((name.split(":")[0] for name in bound["shares"]), 0.0)
    for name, share in bound["shares"].items():
        parts[name.split(":")[0]] += share
    return Cell(
        peer / ms[own], line, peer / float(bound["least_ms"]), "/".join(f"{100 * one:.0f}" for one in parts.values())
    )


def _firefox(model: str, beam: int, size: int, native: bool = False) -> Callable[[str], Cell | None]:
    def read(isa: str) -> Cell | None:
        line = _newest(isa, "real", model=model, beam=beam, size=size, sentences=COUNT, set=TEXT)
        if line is None:
            return None
        peers = [name for name in line["contenders"] if name.startswith(NATIVE)] if native else ["Bergamot"]
        return _cell(line, peers, "ours", line["bound"])

    return read


def _shape(name: str, batch: int, peer: str, layer: str) -> Callable[[str], Cell | None]:
    def read(isa: str) -> Cell | None:
        line = _newest(isa, "peers", name=name, batch=batch, sentences=SENTENCES[name, batch])
        if line is None:
            return None
        return _cell(line, [peer], f"ours {layer}", line.get("bounds", {}).get(layer))

    return read


def _layer(model: str, rows: int) -> Callable[[str], Cell | None]:
    def read(isa: str) -> Cell | None:
        line = _newest(isa, "steps", model=model)
        if line is None:
            return None
        one = line["times_as_fast"][str(rows)]
        return Cell(float(one["median"]), line, float(one["scan_us"] / one["bound_us"]))

    return read


def targets() -> list[Target]:
    """The rows."""
    aims = {(1, 1): (5.5, 9.0), (5, 1): (5.0, 10.0), (1, 64): (7.0, 17.0), (5, 64): (7.0, 18.0)}
    models = [(model, beam, "greedy" if beam == 1 else f"beam {beam}") for beam in (1, 5) for model in ("enpt", "pten")]
    rows = [
        Target(f"{model}, {search}, {size}: Bergamot (WASM)", aims[beam, size], _firefox(model, beam, size))
        for size in (1, 64)
        for model, beam, search in models
    ]
    rows += [
        Target(f"{model}, {search}, 1: native", (3.0, 3.0), _firefox(model, beam, 1, native=True))
        for model, beam, search in models
    ]
    for batch, both in ((1, (2.8, 6.0)), (32, (2.0, 4.0))):
        for peer, layer in (("CTranslate2", "scan"), ("CTranslate2 with map", "shortlist")):
            rows.append(Target(f"6+6, {batch}, `{layer}`: {peer}", both, _shape("opus-6+6", batch, peer, layer)))
    nllb = _shape("nllb-600m", 1, "CTranslate2", "scan")
    rows.append(Target("NLLB-600M, 1, `scan`: CTranslate2", (3.0, 5.0), nllb))
    for peer, layer in (("Marian", "scan"), ("Marian with shortlist", "shortlist")):
        rows.append(Target(f"base-memory, 1, `{layer}`: {peer}", (3.0, 3.0), _shape("base-memory", 1, peer, layer)))
    for model, words in (("enpt", "32,001"), ("en-pt-wide", "58,101")):
        for count, aim in ((1, (4.0, 3.0)), (5, (3.5, 2.0)), (160, (2.5, 1.5))):
            rows.append(Target(f"preview of {words} tokens, {count}: `scan`", aim, _layer(model, count)))
    return rows


def _text(cell: Cell | None, aim: float) -> str:
    if cell is None:
        return "not measured"
    holds = "**" * (cell.figure >= aim)
    facts = "; ".join(filter(None, [f"{cell.most:.1f}" if cell.most else "", cell.shares]))
    return f"{holds}x{cell.figure:.1f}{holds} of {aim:g}" + f" ({facts})" * bool(facts)


def table() -> tuple[list[list[str]], list[Line]]:
    """The rows, head first, and the lines that they are read from; ValueError if these are of several machines."""
    rows, used = [["over", "AVX2", "AVX-512"]], list[Line]()
    for target in targets():
        cells = [target.read(isa) for isa in ISAS]
        used += [cell.line for cell in cells if cell]
        rows.append([target.label, *map(_text, cells, target.aims)])
    if len({line["cpu"] for line in used}) > 1:
        raise ValueError("the newest lines of the targets are of several machines: take them again on one")
    return rows, used
