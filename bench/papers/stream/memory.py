"""STREAM's strategies at equal memory (Tables 1, 3, 4): every one may hold the same number of rows at a time.

With space for `rows` hypotheses and a beam of k, a batch has n = rows / k requests, as in the paper, where memory sets
n; a stream is filled to the same rows. FIXED is the paper's baseline; FIXED-OURS keeps finished hypotheses on the beam,
where they can fall off, and FIXED-STREAM is its stream. FIXED-STREAM and VAR-STREAM are the paper's Algorithm 1 (a step
runs the requests of the least length), VAR-STR-FIFO runs those that entered first, up to half of the rows, and STREAM
runs all rows in each step, which is ours. The margin is 2.5 and a parent has at most 5 children, chosen
on valid sets. Answers are compared first: what a schedule does must not change a bit of them. One thread, processor
time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any

import typer

from bench.flags import Data, Model, Rounds, Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, german_english
from bench.papers.stream.stream import BASELINE, PAPER, SETS, VARIABLE, Contender, DisagreementError, table_row
from sharpbeam import MachineOptions, Translation, Translator
from sharpbeam.report.quality import quality

ROWS, BEAMS = (16, 50, 160, 500), (5, 50)
SAME = {"FIXED-STREAM": "FIXED-OURS", "VAR-STREAM": "VAR-BATCH", "VAR-STR-FIFO": "VAR-BATCH", "STREAM": "VAR-BATCH"}


def strategies(beam_size: int, rows: int) -> dict[str, tuple[dict[str, Any], int]]:
    """Options of each strategy, and how many requests it has in a batch, 0 for streams."""
    fixed, variable = {"beam_size": beam_size}, {"beam_size": beam_size, **VARIABLE}
    at_once, whole = max(1, rows // beam_size), {"batch_tokens": 1 << 30}
    shortest = {"schedule": "stream-shortest", "max_rows": rows}
    longest = {"schedule": "stream-longest", "max_rows": rows, "max_step_rows": max(rows // 2, beam_size)}
    return {
        "FIXED": (fixed | whole, at_once),
        "FIXED-OURS": (fixed | whole | {"finishing": "stay"}, at_once),
        "FIXED-STREAM": (fixed | shortest | {"finishing": "stay"}, 0),
        "VAR-BATCH": (variable | whole, at_once),
        "VAR-STREAM": (variable | shortest, 0),
        "VAR-STR-FIFO": (variable | longest, 0),
        "STREAM": (variable | {"schedule": "stream", "max_rows": rows}, 0),
    }


def measure(
    translator: Translator, data: str, name: str, beam_size: int, rows: int, sentences: int, rounds: int
) -> dict[str, Any]:
    """One table, recorded; raises DisagreementError."""
    options = {"model": translator.loaded.folder.name, "set": name, "beam_size": beam_size, "rows": rows}
    options |= {"sentences": sentences, "rounds": rounds, "variable": VARIABLE}
    if known := record.find("stream_memory", options):
        return known
    sources, references = german_english(data, sentences, SETS[name])
    contenders = {
        strategy: Contender(translator, sources, chosen | {"output_layer": "scan"}, at_once)
        for strategy, (chosen, at_once) in strategies(beam_size, rows).items()
    }
    bleu: dict[str, float] = {}

    def check(outputs: dict[str, list[Translation]]) -> None:
        for mine, other in SAME.items():
            if outputs[mine] != outputs[other]:
                raise DisagreementError(f"{mine} does not answer as {other}")
        for strategy, found in outputs.items():
            bleu[strategy] = quality([translation.text for translation in found], references).bleu

    runs: dict[str, Callable[[], list[Translation]]] = dict(contenders)
    timings = interleave(runs, BASELINE, rounds, check, time.process_time)
    found = {
        strategy: table_row(timings[strategy], contenders[strategy].work, bleu[strategy]) for strategy in contenders
    }
    line = {"baseline": BASELINE, "contenders": found}
    return record.write("stream_memory", line, threads=1, options=options)


def describe(line: dict[str, Any]) -> str:
    """The table, for people."""
    options, contenders = line["options"], line["contenders"]
    said = [f"{options['set']}, k = {options['beam_size']}, {options['rows']} rows, {options['sentences']} sentences"]
    for name, found in contenders.items():
        paper = PAPER[options["beam_size"]].get(name)
        said.append(
            f"  {name:<13} {found['median_s']:8.2f} s, {1 / found['ratio']:.3f} of FIXED"
            f"{f' (paper {paper[0]:.3f})' if paper else '':<14} BLEU {found['bleu']:.2f}, {found['steps']} steps, "
            f"{found['expansions']} expansions, {found['expansions_per_step']:.1f} a step"
        )
    return "\n".join(said)


def main(
    data: Data = DATA,
    model: Model = "de-en",
    rows: list[int] = list(ROWS),
    beams: list[int] = list(BEAMS),
    name: Annotated[str, typer.Option("--set", help=" or ".join(SETS))] = "tatoeba",
    sentences: Sentences = 200,
    rounds: Rounds = 3,
) -> None:
    """Measure, print and record; what this commit has recorded is not measured again."""
    translator = Translator(model, machine=MachineOptions(threads=1))
    for beam in beams:
        for space in rows:
            print(describe(measure(translator, data, name, beam, space, sentences, rounds)), flush=True)
