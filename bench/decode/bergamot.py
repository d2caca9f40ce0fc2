"""Quality next to Bergamot: BLEU on whole test sets, and how many sentences are the same, with and without shortlists.

Firefox's models as they are shipped, both beams, in batches of 64. Ours is measured with no flags, with the shortlist,
and in float32 with the exact output layer, which says how far each of the two int8 arithmetics is from the weights.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from bench.decode.real import sentences
from bench.engines import firefox
from bench.engines.child import Child, python_engine
from bench.harness import record
from bench.harness.testset import DATA
from sharpbeam.report.quality import quality

BATCH = 64
SETS = ("ntrex", "tatoeba")


def engines(pair: str, beam: int) -> dict[str, Callable[[], Child]]:
    """A start for each engine."""
    folder = str(firefox.model(pair))

    def ours(**more: Any) -> Callable[[], Child]:
        return lambda: python_engine("ours", model=folder, beam_size=beam, **more)

    return {
        "Bergamot, shortlist": lambda: firefox.bergamot(pair, beam),
        "Bergamot": lambda: firefox.bergamot(pair, beam, shortlist=False),
        "ours": ours(),
        "ours, shortlist": ours(output_layer="shortlist"),
        "ours, float32": ours(machine={"exact": True}),
    }


def measure(pair: str, name: str, beam: int, count: int, data: str) -> dict[str, Any]:
    """One line: BLEU of each engine, and the share of the same sentences for each two of them."""
    texts, references = sentences(data, pair, name, count)
    said: dict[str, list[str]] = {}
    for who, start in engines(pair, beam).items():
        with start() as child:
            said[who] = child.translate(texts, BATCH).texts
    figures = {
        "bleu": {who: round(quality(found, references).bleu, 2) for who, found in said.items()},
        "same": {
            f"{who} = {other}": round(sum(map(str.__eq__, said[who], said[other])) / len(texts), 4)
            for i, who in enumerate(said)
            for other in list(said)[i + 1 :]
        },
    }
    options = {"model": pair, "set": name, "beam": beam, "sentences": len(texts)}
    return record.write("bergamot", figures, threads=1, options=options)


def main(
    data: Annotated[str, typer.Option(help="folder of the text")] = DATA,
    pairs: Annotated[str, typer.Option(help="models")] = " ".join(firefox.PAIRS),
    texts: Annotated[str, typer.Option(help="sets; valid is for development")] = " ".join(SETS),
    beams: Annotated[str, typer.Option(help="beam sizes")] = "1 5",
    count: Annotated[int, typer.Option(help="sentences of each set, at equal distances; 0 = all")] = 0,
) -> None:
    """Compare the answers on each set at each beam size."""
    for pair in pairs.split():
        for name in texts.split():
            for beam in map(int, beams.split()):
                print(json.dumps(measure(pair, name, beam, count, data)), flush=True)
