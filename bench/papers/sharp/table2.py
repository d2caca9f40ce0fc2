"""SHARP Table 2 in our terms: BLEU and words/s of the configs that were trained, and of ensembles of them.

One thread, one sentence at a time, beam 6 with the paper's stop rule, `scan` as the output layer. Words are source
words. A step of six rows is timed for all configs, with random weights where one is not trained (recipes/sharp-*.toml).

Ensembles are of S4 with other seeds, as the paper's: S4b and S4c are its recipe with seeds of 24 and 34. Three seeds
make three ensembles of two, E1 to E1c: one of them says little, as two seeds differ by a point.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import NoDataError, test_pairs
from sharpbeam import MachineOptions, Translator
from sharpbeam.models.config import from_facts
from sharpbeam.models.registry import find_architecture
from sharpbeam.report.quality import quality
from sharpbeam.storage.model_folder import read_config, save_model
from sharpbeam.train.recipe import read_recipe

PAPER = {  # BLEU on newstest2014 en-fr, words/s on a Haswell
    "S1": (36.2, 418),
    "S2": (36.8, 242),
    "S3": (37.1, 271),
    "S4": (37.4, 229),
    "S5": (37.6, 157),
    "S6": (37.3, 163),
    "S7": (37.8, 28),
    "E1": (38.3, 102),
    "E2": (38.5, 65),
}
MEMBERS: dict[str, tuple[str, ...]] = {
    "S1": ("S1",),
    "S4": ("S4",),
    "S4b": ("S4b",),
    "S4c": ("S4c",),
    "E1": ("S4", "S4b"),
    "E1b": ("S4", "S4c"),
    "E1c": ("S4b", "S4c"),
    "E2": ("S4", "S4b", "S4c"),
}
SETS = "tatoeba", "newstest2013"
OPTIONS: dict[str, Any] = {"beam_size": 6, "stop_margin": 3.0, "output_layer": "scan", "batch_tokens": 1}
STEPS = 12  # of the sentences whose steps are timed


def find(models: Sequence[str], name: str) -> Path:
    """The finished folder of a config's model; NoDataError where none was trained."""
    for folder in models:
        for path in (Path(folder, f"sharp-{name.lower()}"), Path(folder, f"sharp-{name.lower()}", "best")):
            if (path / "config.json").is_file():
                return path
    raise NoDataError(f"no model: sharp-{name.lower()} is not in {', '.join(models)}; train its recipe")


def measure(
    models: Sequence[str], data: str, compute_type: str, sentences: int, rounds: int, steps: bool = True
) -> dict[str, Any]:
    """Every row that has its models: BLEU on both sets, words/s on the first, milliseconds of a step of six rows."""
    machine = MachineOptions(threads=1, compute_type=compute_type)  # type: ignore[arg-type]
    rows: dict[str, Translator] = {}
    missing = []
    for name, members in MEMBERS.items():
        try:
            rows[name] = Translator([find(models, member) for member in members], machine=machine)
        except NoDataError:
            missing.append(name)
    if not rows:
        raise NoDataError(f"no model of SHARP's Table 2 is in {', '.join(models)}")
    texts = {name: test_pairs(data, sentences, name) for name in SETS}
    first = texts["tatoeba"][0]
    answers: dict[str, list[str]] = {}
    timing = interleave(
        {name: partial(_texts, translator, first) for name, translator in rows.items()},
        next(iter(rows)),
        rounds,
        answers.update,
    )
    words = sum(len(text.split()) for text in first)
    bleu = {name: {"tatoeba": quality(own, texts["tatoeba"][1]).bleu} for name, own in answers.items()}
    for name, translator in rows.items():
        news, references = texts["newstest2013"]
        bleu[name]["newstest2013"] = quality(_texts(translator, news), references).bleu
    figures = {
        name: {"words_per_second": round(words / t.median_s, 1), "bleu": bleu[name], **dataclasses.asdict(t)}
        for name, t in timing.items()
    }
    step_ms = _steps(rows, first[:10], machine, rounds) if steps else {}
    options = {"compute_type": compute_type, "sentences": sentences, **OPTIONS}
    line = {"rows": figures, "step_ms": step_ms, "missing": missing}
    return record.write("table2", line, threads=1, options=options)


def _texts(translator: Translator, sources: Sequence[str]) -> list[str]:
    return [answer.text for answer in translator.translate(sources, **OPTIONS)]


def _steps(rows: dict[str, Translator], texts: Sequence[str], machine: MachineOptions, rounds: int) -> dict[str, float]:
    """Milliseconds of a step of six rows of every config, random weights where it is not trained: each sentence takes
    STEPS steps."""
    options = OPTIONS | {"min_length": STEPS - 1, "max_length": STEPS}
    like = next(iter(rows.values())).loaded.folder
    with tempfile.TemporaryDirectory(prefix="sharpbeam-") as folder:
        every = {
            name: rows[name] if name in rows else Translator(_random(name, Path(folder, name), like), machine=machine)
            for name in PAPER
            if name in rows or name not in MEMBERS or len(MEMBERS[name]) == 1
        }
        run = {name: partial(translator.translate, texts, **options) for name, translator in every.items()}
        timing = interleave(run, next(iter(run)), rounds, lambda _: None)
    return {name: round(1e3 * t.median_s / len(texts) / STEPS, 4) for name, t in timing.items()}


def _random(name: str, folder: Path, like: Path) -> Path:
    """A model with the facts of the recipe of `name`, random weights, and the vocabulary of another model."""
    facts = dict(read_recipe(record.ROOT / "recipes" / f"sharp-{name.lower()}.toml").model)
    architecture = find_architecture(facts.pop("architecture"))
    words = read_config(like).target_vocab_size
    config: Any = from_facts(architecture.config, {"source_vocab_size": words, "target_vocab_size": words} | facts)
    draw = np.random.default_rng(1)
    tensors = {n: draw.uniform(-0.05, 0.05, s).astype(np.float32) for n, s in config.tensor_shapes().items()}
    save_model(folder, config, tensors, {"source.spm": (like / "source.spm").read_bytes()}, "# random weights\n")
    return folder


def describe(line: dict[str, Any]) -> str:
    """The table, for people."""
    head = f"{'':4}{'BLEU tatoeba':>14}{'newstest2013':>14}{'words/s':>10}{'factor':>8}{'ms a step':>11}   paper"
    lines = [head]
    for name in dict.fromkeys([*PAPER, *line["rows"]]):
        row, step = line["rows"].get(name), line["step_ms"].get(name)
        bleu = [f"{row['bleu'][test]:.2f}" for test in SETS] if row else ["-", "-"]
        speed = [f"{row['words_per_second']:.0f}", f"{row['ratio']:.2f}"] if row else ["-", "-"]
        paper = f"{PAPER[name][0]} BLEU, {PAPER[name][1]} words/s" if name in PAPER else ""
        lines.append(
            f"{name:4}{bleu[0]:>14}{bleu[1]:>14}{speed[0]:>10}{speed[1]:>8}{step if step else '-':>11}   {paper}"
        )
    return "\n".join(lines)
