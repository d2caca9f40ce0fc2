"""Two workers against one: the same answers, how many times the throughput, and how much more memory.

Throughput is interleaved in one process. Memory is the peak of a process of its own for each, after the same work.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from typing import Annotated, Any

import typer

from bench.flags import Data, Model, Rounds, Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, german_english
from sharpbeam import MachineOptions, Translator
from sharpbeam.jobs.memory import peak_memory

BEAM = 6
WORKERS = (1, 2)


def measure(model: str, data: str, options: dict[str, Any], sentences: int, rounds: int) -> dict[str, Any]:
    """Ratio of the throughputs with its spread, and of the peak memories."""
    compute_type = options.get("compute_type", "float32")
    choices = {"beam_size": BEAM, "output_layer": options.get("output_layer", "exact")}
    choices["batch_tokens"] = options.get("batch_tokens", 0)
    sources, _ = german_english(data, sentences)
    translators = {
        f"{n} worker(s)": Translator(model, machine=MachineOptions(threads=n, compute_type=compute_type))
        for n in WORKERS
    }
    processor: dict[str, float] = {}

    def run(name: str, translator: Translator) -> list[str]:
        began = time.process_time()
        found = [answer.text for answer in translator.translate(sources, **choices)]
        processor[name] = time.process_time() - began
        return found

    def check(said: dict[str, list[str]]) -> None:
        if len({tuple(texts) for texts in said.values()}) != 1:
            raise AssertionError("the answers depend on the number of workers")

    contenders = {name: lambda n=name, t=t: run(n, t) for name, t in translators.items()}
    one, two = contenders
    timing = interleave(contenders, one, rounds, check)
    memory = {n: _peak(model, data, compute_type, choices, sentences, n) for n in WORKERS}
    figures = {
        "contenders": {name: dataclasses.asdict(t) for name, t in timing.items()},
        "ratio": timing[two].ratio,
        "processor_seconds": processor,  # where two need more in all, they are in each other's way
        "peak_mib": {str(n): round(size / 2**20, 1) for n, size in memory.items()},
        "memory_ratio": memory[2] / memory[1],
    }
    return record.write("workers", figures, threads=2, options={"model": model, "sentences": len(sources), **choices})


def _peak(model: str, data: str, compute_type: str, choices: dict[str, Any], sentences: int, workers: int) -> int:
    """The peak memory of a process that does the work with so many workers, in bytes."""
    given = json.dumps([model, data, compute_type, choices, sentences, workers])
    command = [sys.executable, "-m", "bench", "micro.workers", "--alone", given]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, cwd=record.ROOT).stdout)


def _alone(given: str) -> None:
    model, data, compute_type, choices, sentences, workers = json.loads(given)
    translator = Translator(model, machine=MachineOptions(threads=workers, compute_type=compute_type))
    translator.translate(german_english(data, sentences)[0], **choices)
    print(peak_memory())


def main(
    data: Data = DATA,
    model: Model = "de-en",
    compute_type: str = "int8",
    output_layer: str = "scan",
    batch_tokens: Annotated[int, typer.Option(help="0 = as the library chooses, 1 = one by one")] = 0,
    sentences: Sentences = 1000,
    rounds: Rounds = 5,
    alone: Annotated[str, typer.Option(hidden=True)] = "",
) -> None:
    """Measure, print and record."""
    if alone:
        return _alone(alone)
    options = {"compute_type": compute_type, "output_layer": output_layer, "batch_tokens": batch_tokens}
    print(describe(measure(model, data, options, sentences, rounds)))
    return None


def describe(line: dict[str, Any]) -> str:
    """One measurement, for people."""
    two = line["contenders"]["2 worker(s)"]
    spent = list(line["processor_seconds"].values())
    return (
        f"two workers x{line['ratio']:.2f} ({two['least_ratio']:.2f}-{two['most_ratio']:.2f}) for "
        f"x{spent[1] / spent[0]:.2f} of the processor's time, memory x{line['memory_ratio']:.2f} "
        f"({line['peak_mib']['1']:.0f} -> {line['peak_mib']['2']:.0f} MiB)"
    )
