"""What was aimed at over other engines, with AVX2 alone and with AVX-512, and what holds: read from lines.

A cell has the figure of the newest line, the most that the bound of that line allows (bench/harness/bound.py), and the
profile of ours: the shares of encoder, decoder, output layer and search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from result_lines import Line, select

ISAS = ("avx2", "avx512")
NATIVE = ("Bergamot, native", "slimt", "Marian")  # the beginnings of their names
Cell = tuple[float, float, Line]  # the figure, the most there can be, and the line of both


@dataclass(frozen=True)
class Target:
    """A row: factors aimed at with AVX2 and with AVX-512, and what reads a cell from the lines of one of them."""

    label: str
    aims: tuple[float, float]
    read: Callable[[str], Cell | None]


def _newest(isa: str, benchmark: str, **options: object) -> Line | None:
    lines = [line for line in select(benchmark, **options) if line["isa"].startswith(isa)]
    return lines[-1] if lines else None


def _cell(line: Line, peers: list[str], own: str, bound: str) -> Cell:
    ms = {name: float(one["ms_per_sentence"]) for name, one in line["contenders"].items()}
    peer = min(ms[name] for name in peers)
    return peer / ms[own], peer / float(line["bound"][bound]), line


def _firefox(model: str, beam: int, size: int, native: bool = False) -> Callable[[str], Cell | None]:
    def read(isa: str) -> Cell | None:
        line = _newest(isa, "real", model=model, beam=beam, size=size)
        if line is None:
            return None
        peers = [name for name in line["contenders"] if name.startswith(NATIVE)] if native else ["Bergamot"]
        return _cell(line, peers, "ours", f"{line['bound']['layer']}_ms")

    return read


def _shape(name: str, batch: int, peer: str, own: str, bound: str) -> Callable[[str], Cell | None]:
    def read(isa: str) -> Cell | None:
        line = _newest(isa, "peers", name=name, batch=batch)
        return None if line is None else _cell(line, [peer], own, bound)

    return read


def _layer(model: str, rows: int) -> Callable[[str], Cell | None]:
    def read(isa: str) -> Cell | None:
        line = _newest(isa, "steps", model=model)
        if line is None:
            return None
        one = line["times_as_fast"][str(rows)]
        return float(one["median"]), float(one["scan_us"] / one["bound_us"]), line

    return read


def _rows() -> list[Target]:
    searches = (1, "greedy"), (5, "beam 5")
    aims = {(1, 1): (5.5, 9), (5, 1): (5, 10), (1, 64): (7, 17), (5, 64): (7, 18)}
    rows = [
        Target(f"{model}, {search}, {size}: Bergamot", aims[beam, size], _firefox(model, beam, size))
        for size in (1, 64)
        for beam, search in searches
        for model in ("enpt", "pten")
    ]
    rows += [
        Target(f"{model}, {search}, 1: native engines", (3, 3), _firefox(model, beam, 1, native=True))
        for beam, search in searches
        for model in ("enpt", "pten")
    ]
    for batch, both in ((1, (2.8, 6)), (32, (2, 4))):
        for peer, layer, bound in (("", "scan", "scan_ms"), (" with map", "shortlist", "free_ms")):
            read = _shape("opus-6+6", batch, f"CTranslate2{peer}", f"ours {layer}", bound)
            rows.append(Target(f"6+6, {batch}, `{layer}`: CTranslate2", both, read))
    nllb = _shape("nllb-600m", 1, "CTranslate2", "ours scan", "scan_ms")
    rows.append(Target("NLLB-600M, 1, `scan`: CTranslate2", (3, 5), nllb))
    for peer, layer, bound in (("", "scan", "scan_ms"), (" with shortlist", "shortlist", "free_ms")):
        read = _shape("base-memory", 1, f"Marian{peer}", f"ours {layer}", bound)
        rows.append(Target(f"base-memory, 1, `{layer}`: Marian", (3, 3), read))
    for model, words in (("enpt", "32,001"), ("en-pt-wide", "58,101")):
        for count, aim in ((1, (4.0, 3.0)), (5, (3.5, 2.0)), (160, (2.5, 1.5))):
            rows.append(Target(f"preview, {words} tokens, {count}: scan", aim, _layer(model, count)))
    return rows


def _profile(line: Line) -> str:
    shares: dict[str, float] = {}
    for name, share in (line.get("bound") or {}).get("shares", {}).items():
        part = name.split(":")[0]
        shares[part] = shares.get(part, 0.0) + share
    return "/".join(f"{100 * share:.0f}" for share in shares.values())


def _text(cell: Cell | None, aim: float) -> str:
    if cell is None:
        return "not measured"
    figure, most, line = cell
    holds = "**" * (round(figure, 1) >= aim)
    return f"{holds}x{figure:.1f}{holds} of {aim:g} ({'; '.join(filter(None, [f'{most:.1f}', _profile(line)]))})"


def table() -> tuple[list[list[str]], list[Line]]:
    """The rows, head first, and the lines that they are read from."""
    rows, used = [["over", "AVX2", "AVX-512"]], list[Line]()
    for target in _rows():
        cells = [target.read(isa) for isa in ISAS]
        used += [cell[2] for cell in cells if cell]
        rows.append([target.label, *map(_text, cells, target.aims)])
    return rows, used
