"""The ablation of SHARP (Table 1) on our engine: its five steps one after the other, words/s, and what they change.

One thread, one sentence at a time, beam 6, a lexical shortlist, stopping at a margin of 3.0. SHARP-0 computes in
float32 with our own kernels, which take less time than OpenBLAS (benchmarks/products.py), and in plain loops what is
no product. Outputs are compared first; then all contenders take turns.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

from benchmarks import record
from benchmarks.interleave import interleave
from benchmarks.testset import DATA, NEWS_TEST, TEST, german_english
from quickbeam import MachineOptions, Translator
from quickbeam.evaluate.quality import quality

SEARCH: dict[str, Any] = {"beam_size": 6, "stop_margin": 3.0, "projection": "shortlist"}
WORDS = 8000  # k of SHARP-2
PAPER = {"SHARP-0": 1.0, "SHARP-1": 2.59, "SHARP-2": 3.25, "SHARP-3": 3.57, "SHARP-4": 4.06, "SHARP-5": 4.37}
SAYS = ("baseline", "+ integers", "+ words kept", "+ sources kept", "+ vectors", "+ merged states")
SETS = {"tatoeba": TEST, "newstest2013": NEWS_TEST}
BLEU_DISTANCE = 1.0  # no time is printed where the BLEU scores lie further apart


class DisagreementError(Exception):
    """A step changes what is said, so its time means nothing."""


def steps(compute_type: str) -> dict[str, MachineOptions]:
    """The rows of the table with products in `compute_type` from SHARP-1 on."""
    options: dict[str, Any] = {"compute_type": "float32", "isa": "plain", "merge_states": False}
    changes: tuple[dict[str, Any], ...] = (
        {},
        {"compute_type": compute_type},
        {"word_products": WORDS},
        {"source_products": True},
        {"isa": "auto"},
        {"merge_states": True},
    )
    rows = {}
    for name, change in zip(PAPER, changes, strict=True):
        options = options | change
        rows[name] = MachineOptions(**options)
    return rows


def ablation(model: str, data: str, name: str, compute_type: str, sentences: int, rounds: int) -> dict[str, Any]:
    """The table on one test set; returns and records words/s, factors, BLEU and the share of equal outputs."""
    sources, references = german_english(data, sentences, SETS[name])
    translators = {step: Translator(model, machine=machine) for step, machine in steps(compute_type).items()}

    def contender(translator: Translator) -> Callable[[], list[str]]:
        return lambda: [translator.translate([source], **SEARCH)[0].text for source in sources]

    said: dict[str, dict[str, float]] = {}

    def check(outputs: dict[str, list[str]]) -> None:
        for step, texts in outputs.items():
            same = sum(a == b for a, b in zip(outputs["SHARP-0"], texts, strict=True)) / len(sources)
            said[step] = {"same": round(same, 4), "bleu": round(quality(texts, references).bleu, 2)}
            if abs(said[step]["bleu"] - said["SHARP-0"]["bleu"]) > BLEU_DISTANCE:
                raise DisagreementError(f"{step} disagrees: {said}")

    timings = interleave({s: contender(t) for s, t in translators.items()}, "SHARP-0", rounds, check)
    words = sum(len(source.split()) for source in sources)
    rows = {
        step: {k: round(v, 4) for k, v in dataclasses.asdict(timing).items()}
        | {"words_per_second": round(words / timing.median_s, 1), "paper": PAPER[step]}
        | said[step]
        for step, timing in timings.items()
    }
    options = {"model": model, "set": name, "compute_type": compute_type, "sentences": len(sources), "rounds": rounds}
    return record.write("sharp", {"steps": rows}, threads=1, options=options | SEARCH)


def describe(line: dict[str, Any]) -> str:
    """The table, for people."""
    options = line["options"]
    rows = [f"{options['set']}, {options['compute_type']}, {options['sentences']} sentences, beam 6, one at a time"]
    for (step, found), says in zip(line["steps"].items(), SAYS, strict=True):
        rows.append(
            f"  {step} {says:<16} {found['words_per_second']:>7.0f} words/s  x{found['ratio']:.2f} "
            f"({found['least_ratio']:.2f}-{found['most_ratio']:.2f}; paper x{found['paper']:.2f})  "
            f"same {found['same']:.1%}  BLEU {found['bleu']:.2f}"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=DATA, help="folder of the text")
    parser.add_argument("--model", default="de-en", help="a model with a shortlist (quickbeam fit-shortlist)")
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--compute-types", nargs="+", default=["int8", "int16"], choices=["int8", "int16"])
    parser.add_argument("--sentences", type=int, default=200, help="of each set, at equal distances; 0 = all")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender")
    arguments = parser.parse_args()
    for name in arguments.sets:
        for kind in arguments.compute_types:
            line = ablation(arguments.model, arguments.data, name, kind, arguments.sentences, arguments.rounds)
            print(describe(line), flush=True)


if __name__ == "__main__":
    main()
