"""The proven stop rule against searching to the end: the same answers, and which share of the steps is spared.

Searching to the end is slow, so max_length is twice the number of source tokens plus ten, not the default. Sentences
of one length are decoded together; the rows of a search do not depend on when it stops. What the same commit has
recorded already is not measured again.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from typing import Annotated, Any

import typer

from bench.flags import Data, Model
from bench.harness import record
from bench.harness.testset import DATA, TATOEBA_VALID, TEST, german_english
from sharpbeam import Translation, Translator

PENALTIES = (0.0, 0.6, 1.0, 2.0)
BEAM = 5


def measure(model: str, data: str, sentences: int, output_layer: str = "scan") -> list[dict[str, Any]]:
    """One recorded line for each length penalty; `sentences` of Tatoeba's test and valid set, 0 = all."""
    sources = german_english(data, 0, TEST)[0] + german_english(data, 0, TATOEBA_VALID)[0]
    if 0 < sentences < len(sources):
        sources = [sources[i * len(sources) // sentences] for i in range(sentences)]
    translator = Translator(model)
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for source in sources:
        groups[2 * (len(translator.loaded.source.encode(source)) + 1) + 10].append(source)
    lines = []
    for penalty in PENALTIES:
        options = {"model": model, "beam_size": BEAM, "length_penalty": penalty, "output_layer": output_layer}
        options |= {"max_length": "2 S + 10", "asked": sentences}
        if known := record.find("stopping", options):
            lines.append(known)
            continue
        found: dict[str, list[Translation]] = {}
        steps: dict[str, int] = {}
        for rule in ("exhaustive", "proven", "false"):
            before = dataclasses.replace(translator.work)
            found[rule] = [
                translation
                for most, group in sorted(groups.items())
                for translation in translator.translate(
                    group,
                    beam_size=BEAM,
                    length_penalty=penalty,
                    early_stopping=rule,
                    max_length=most,
                    output_layer=output_layer,
                )
            ]
            steps[rule] = translator.work.request_steps - before.request_steps
        equal = {
            rule: sum(a == b for a, b in zip(found[rule], found["exhaustive"], strict=True))
            for rule in ("proven", "false")
        }
        figures = {
            "sentences": len(sources),
            "equal": equal["proven"],
            "equal_of_heuristic": equal["false"],
            "steps": steps,
            "saved": round(1 - steps["proven"] / steps["exhaustive"], 4),
            "saved_by_heuristic": round(1 - steps["false"] / steps["exhaustive"], 4),
        }
        lines.append(record.write("stopping", figures, threads=1, options=options))
    return lines


def describe(line: dict[str, Any]) -> str:
    """One measurement, for people."""
    return (
        f"length penalty {line['options']['length_penalty']}: {line['equal']} of {line['sentences']} equal, "
        f"{line['saved']:.1%} of the steps saved (by the rule `false`: {line['saved_by_heuristic']:.1%}, "
        f"{line['equal_of_heuristic']} equal)"
    )


def main(
    data: Data = DATA,
    model: Model = "de-en",
    sentences: Annotated[int, typer.Option(help="of the test and the valid set")] = 3000,
    output_layer: Annotated[str, typer.Option(help="output layer")] = "scan",
) -> None:
    """Measure, print and record."""
    for line in measure(model, data, sentences, output_layer):
        print(describe(line), flush=True)
