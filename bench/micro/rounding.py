"""Products of rounded weights and inputs: BLEU of int16 and int8 against float32, on every translation model there is.

All words are scored (`scan`), so that nothing but the model's own products differs; beam 6 and a margin of 3.0, as in
the other figures of SHARP, on Tatoeba's test set.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.flags import Data, Models, Sentences
from bench.harness import record
from bench.harness.testset import DATA, NoDataError, german_english
from bench.papers.l2s.subjects import MODELS, find_named
from sharpbeam import MachineOptions, Translator
from sharpbeam.options.decode import COMPUTE_TYPES
from sharpbeam.report.quality import quality

FROM_GERMAN = ("de-en", "de-en-tuned", "de-en-sn", "de-en-transformer", "sharp-s1", "sharp-s4", "sharp-s5")
FROM_ENGLISH = ("en-de-lstm",)
SEARCH: dict[str, Any] = {"beam_size": 6, "stop_margin": 3.0, "output_layer": "scan"}


def find(roots: Sequence[str]) -> dict[str, Path]:
    """Finished models by name, NAME or NAME/best below the first of `roots` that has it; NoDataError for none."""
    places = {name: find_named(name, roots) for name in FROM_GERMAN + FROM_ENGLISH}
    found = {name: folder for name, folder in places.items() if folder}
    if not found:
        raise NoDataError(f"no model: none of {', '.join(FROM_GERMAN + FROM_ENGLISH)} is in {', '.join(roots)}")
    return found


def measure(roots: Sequence[str], data: str, sentences: int) -> dict[str, Any]:
    """BLEU by model and type, and the share of outputs that float32 says too; returns what it records."""
    german, english = german_english(data, sentences)
    models: dict[str, dict[str, dict[str, float]]] = {}
    for name, folder in find(roots).items():
        sources, references = (german, english) if name in FROM_GERMAN else (english, german)
        texts, models[name] = {}, {}
        for kind in COMPUTE_TYPES:
            translator = Translator(folder, machine=MachineOptions(threads=1, compute_type=kind))
            texts[kind] = [t.text for t in translator.translate(sources, **SEARCH)]
            same = sum(a == b for a, b in zip(texts["float32"], texts[kind], strict=True)) / len(sources)
            models[name][kind] = {"bleu": round(quality(texts[kind], references).bleu, 3), "same": round(same, 4)}
    options = {"sentences": len(german)} | SEARCH
    return record.write("rounding", {"baseline": "float32", "models": models}, threads=1, options=options)


def farthest(line: dict[str, Any]) -> float:
    """The most that BLEU of a rounded model lies off that of float32, above or below."""
    return max(
        abs(float(types["float32"]["bleu"] - found["bleu"]))
        for types in line["models"].values()
        for found in types.values()
    )


def describe(line: dict[str, Any]) -> str:
    """One line for each model, for people."""
    rows = []
    for name, types in line["models"].items():
        base = types["float32"]["bleu"]
        each = (
            f"{kind} {found['bleu'] - base:+.3f} ({found['same']:.1%} the same)"
            for kind, found in types.items()
            if kind != "float32"
        )
        rows.append(f"{name} {base:.2f}, {', '.join(each)}")
    return "\n".join(rows)


def main(data: Data = DATA, models: Models = list(MODELS), sentences: Sentences = 1000) -> None:
    """Measure, print and record."""
    print(describe(measure(models, data, sentences)))
