"""Beam search with a fitted screen against the exact output layer: BLEU, equal sentences, and time (L2S Table 3).

The screen is fitted by `sharpbeam fit-screen` itself, on the training text, for the fidelity that is claimed; a copy of
the model with its screen is kept in build/bench. Quality is that of all sentences of the validation and test sets; one
sentence at a time is timed, on some of the test set.
"""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from bench.harness import record
from bench.harness.cache import COLLECTING, FITTING, fitted_copy, model_name, place, stamp
from bench.harness.interleave import interleave
from bench.harness.parts import with_parts
from bench.harness.with_screen import layer_options
from bench.harness.with_shortlist import project_model
from bench.papers.l2s.subjects import SUBJECTS, Subject
from sharpbeam import Translator
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun, RowLayer
from sharpbeam.report.quality import quality
from sharpbeam.types import Floats, Ids, Request, TopK

T = TypeVar("T")

FIDELITY = 0.999
VECTORS, QUICK_VECTORS = 500_000, 300_000  # that the screen is fitted on, with a beam of 5
CLUSTERS = 200
TIMED, QUICK_TIMED = 100, 30  # sentences
ROUNDS = 3
LAYERS = ("exact", "scan", "screen")
GERMAN_ENGLISH = "de-en"  # the subject whose text fits all such models


def screened_copy(subject: Subject, folder: Path, data: str, quick: bool) -> Path:
    """A copy of the model with a screen, fitted if there is none yet of this model, this text and this code."""
    source = Path(data) / subject.fit
    copied = (folder / "shortlist.json", folder / "shortlist.safetensors")  # they go with the model
    made_of = stamp(folder, source, *copied, code=(*FITTING, "bench/papers/l2s/screened_search.py"))
    copy = place("screened", subject.name, made_of, "-quick" if quick else "")
    # Hidden vectors take most of the time, and outlive a change of what is fitted on them.
    vectors_folder = place("screened", f"vectors-{subject.name}", stamp(folder, source, code=COLLECTING))
    vectors = QUICK_VECTORS if quick else VECTORS
    flags = ["--method", "kmeans", "--clusters", str(CLUSTERS), "--fidelity", str(FIDELITY), "--vectors", str(vectors)]

    def command(model: Path, work: Path) -> list[str]:
        text = work / "text"
        with text.open("w", encoding="utf-8") as out:
            out.writelines(line + "\n" for line in subject.lines(data, "fit"))
        return ["fit", "screen", str(model), "--text", str(text), *flags, "--work", str(vectors_folder)]

    return fitted_copy(folder, copy, "screen.json", command)


def screened(model: str, data: str, quick: bool) -> Path:
    """The folder of a German-English model with a screen, its own or one that is fitted; as `listed` of a shortlist."""
    folder = project_model(model)
    if (folder / "screen.json").is_file():
        return folder
    (subject,) = (
        dataclasses.replace(subject, name=model_name(folder)) for subject in SUBJECTS if subject.name == GERMAN_ENGLISH
    )
    return screened_copy(subject, folder, data, quick)


def measure(subject: Subject, folder: Path, data: str, quick: bool) -> dict[str, Any]:
    """All figures of one translation model, recorded."""
    translator = Translator(screened_copy(subject, folder, data, quick))
    count = 300 if quick else 0
    sets = {part: subject.pairs(data, part, count) for part in ("choose", "test")}
    figures: dict[str, Any] = {
        f"{name}, beam {beam}": _compare(translator, sets[part], beam)
        for name, part in (("valid", "choose"), ("test", "test"))
        for beam in (1, 5)
    }
    timed = subject.pairs(data, "test", QUICK_TIMED if quick else TIMED)
    times = {f"beam {beam}": time_layers(translator, [source for source, _ in timed], beam) for beam in (1, 5)}
    screen = translator.loaded.artifacts.facts("screen")
    chosen = {name: screen.get(name) for name in ("method", "clusters", "budget", "fidelity_reached", "held_out")}
    return record.write(
        "screened_search",
        {"baseline": "exact", "quality": figures, "times": times, "screen": chosen},
        threads=1,
        options={"model": subject.name, "fidelity": FIDELITY, "sentences": {k: len(v) for k, v in sets.items()}},
    )


def _compare(translator: Translator, pairs: list[tuple[str, str]], beam: int) -> dict[str, float]:
    """BLEU with both layers, and the share of equal sentences."""
    sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
    texts = {
        layer: [t.text for t in translator.translate(sources, beam_size=beam, output_layer=layer)]
        for layer in ("exact", "screen")
    }
    bleu = {layer: quality(answers, references).bleu for layer, answers in texts.items()}
    same = sum(a == b for a, b in zip(*texts.values(), strict=True)) / len(sources)
    difference = bleu["screen"] - bleu["exact"]
    return {"exact": round(bleu["exact"], 3), "screen": round(bleu["screen"], 3)} | {
        "difference": round(difference, 3),
        "identical": round(same, 5),
    }


class Clock:
    """Measures calls, and keeps the seconds of each by name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)

    def timed(self, name: str, function: Callable[..., T]) -> Callable[..., T]:
        """`function`, timed with as little as can be around it, for what is around it counts as bookkeeping."""
        note, now = self.seconds[name].append, time.thread_time

        def run(*arguments: Any) -> T:
            began = now()
            result = function(*arguments)
            note(now() - began)
            return result

        return run


class TimedLayer(OutputLayerRun, OutputLayer):
    """An output layer whose calls are timed: in the run, as what it opens."""

    def __init__(self, output_layer: RowLayer, clock: Clock) -> None:
        self.vocab_size, self._run = output_layer.vocab_size, output_layer.open()
        self._topk: Callable[[Floats, int, Ids], TopK] = clock.timed("topk", self._run.topk)
        self._log_prob: Callable[[Floats, Ids, Ids], Floats] = clock.timed("log_prob", self._run.log_prob)

    def open(self) -> TimedLayer:
        return self

    def admit(self, requests: Sequence[Request]) -> None:
        self._run.admit(requests)

    def evict(self, request: Ids) -> None:
        self._run.evict(request)

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        return self._topk(hidden, k, request)

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        return self._log_prob(hidden, token, request)


def time_layers(
    translator: Translator, sources: list[str], beam: int, layers: Sequence[str] = LAYERS
) -> dict[str, Any]:
    """Milliseconds a sentence, one at a time: of the whole translation and of its output layer, and ratios."""
    spent: dict[str, list[float]] = {layer: [] for layer in layers}

    def contender(layer: str) -> Callable[[], None]:
        def run() -> None:
            clock = Clock()
            own = translator.output_layer(DecodeOptions.of(**layer_options(layer)))
            with with_parts(translator, exact=TimedLayer(cast(RowLayer, own), clock)):
                for source in sources:
                    translator.translate([source], beam_size=beam, output_layer="exact")
            spent[layer].append(sum(clock.seconds["topk"]))

        return run

    began = time.perf_counter()
    timings = interleave(
        {layer: contender(layer) for layer in layers}, "exact", ROUNDS, lambda _: None, time.process_time
    )
    scale = 1e3 / len(sources)
    return {"seconds": round(time.perf_counter() - began, 1)} | {
        layer: {
            "ms": round(timings[layer].median_s * scale, 3),
            "ratio": round(timings[layer].ratio, 3),
            "layer_ms": round(sorted(spent[layer][1:])[ROUNDS // 2] * scale, 3),
        }
        for layer in layers
    }


def describe(line: dict[str, Any]) -> str:
    """The figures, for people."""
    fallback = line["screen"]["held_out"]["fallback"]
    rows = [
        f"{line['options']['model']}, --output-layer screen against exact, fitted with --fidelity {FIDELITY}; "
        f"{fallback:.1%} of the rows fall back"
    ]
    for name, q in line["quality"].items():
        rows.append(
            f"  {name:<14} BLEU {q['screen']:.2f} against {q['exact']:.2f} ({q['difference']:+.2f}), "
            f"{q['identical']:.2%} of the sentences the same"
        )
    for name, times in line["times"].items():
        for layer in LAYERS:
            t = times[layer]
            rows.append(
                f"  {name:<7} {layer:<7} {t['ms']:.2f} ms a sentence (x{t['ratio']:.2f}), output layer "
                f"{t['layer_ms']:.2f} ms (x{times['exact']['layer_ms'] / max(t['layer_ms'], 1e-9):.2f})"
            )
    return "\n".join(rows)
