"""`tune`: which number type and output layer are fastest for a model on this machine, at the same answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from sharpbeam.api.translator import Translator
from sharpbeam.errors import InputError, ModelError
from sharpbeam.fit.low_bit_job import fit_preview
from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.options.machine import ComputeType
from sharpbeam.options.schema import require
from sharpbeam.report.tune_picture import draw_tuning
from sharpbeam.storage.low_bit import FILE as LOW_BIT
from sharpbeam.storage.nets import NET
from sharpbeam.storage.tuned import FILE, save_tuned
from sharpbeam.text.lines import read_all

SENTENCES = 100  # that every choice translates
ROUNDS = 3  # of all choices, interleaved
BATCH = 32  # sentences
SAME = 0.9  # share of the sentences that must have the answer of the reference: int8 moves near ties, no quality
TYPES: tuple[ComputeType, ...] = ("int8", "int16", "float32")
LAYERS = ("scan", "proven", "calibrated", "shortlist-net", "exact")
KEEP = ("scan", "proven", "shortlist-net", "exact")  # proven tokens, or to a stated fidelity: one of these is chosen


@dataclass(frozen=True)
class Choice:
    """A number type and an output layer, and what they came to."""

    compute_type: str
    output_layer: str
    one: float  # milliseconds for a sentence, one at a time, median of the rounds
    batch: float  # milliseconds for a sentence, in batches of 32
    same: float  # share of the sentences with the answer of the reference


@dataclass(frozen=True)
class Tuning:
    """All choices, and the one that was written."""

    folder: Path
    choices: tuple[Choice, ...]
    best: Choice
    beam_size: int
    sentences: int
    skipped: tuple[str, ...] = ()  # why output layers were left out, a line each

    def table(self) -> str:
        """For people: fastest first, with a bar for each."""
        slowest = max(choice.one for choice in self.choices)
        lines = [f"{'':22}{'one at a time':>15}{'batch of 32':>13}{'same answers':>14}"]
        for choice in sorted(self.choices, key=lambda c: c.one):
            name = f"{choice.compute_type} {choice.output_layer}"
            bar = "#" * max(1, round(24 * choice.one / slowest))
            chosen = "  <- chosen" if choice is self.best else ""
            lines.append(f"{name:22}{choice.one:12.2f} ms{choice.batch:10.2f} ms{choice.same:13.1%}  {bar}{chosen}")
        lines += self.skipped
        lines.append(f"{self.folder / FILE}: translate and serve take this choice from now on.")
        return "\n".join(lines)

    def draw(self, path: Path | None = None) -> Path:
        """Draw the table as PNG, by default tuned.png next to tuned.json; returns the path. Needs Matplotlib."""
        path = path or (self.folder / FILE).with_suffix(".png")
        draw_tuning(self, path)
        return path


def tune(
    model: str | Path,
    text: Sequence[str | Path],
    *,
    beam_size: int | None = None,
    sentences: int = SENTENCES,
    threads: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Tuning:
    """Measure number types and output layers on `text`, and write the fastest with the same answers to the model.

    Of the choices whose tokens are proven (`scan`, `proven`, `exact`), or all there to the fidelity that `fit-net`
    states (`shortlist-net`, where the model has a net), and that give at least nine sentences of ten the answer of
    float32 with the exact layer, the one that takes least for one sentence at a time goes to tuned.json;
    `compute_type="auto"` and `output_layer="auto"` mean it from then on. A low-bit preview is fitted to the text first,
    where the model has none; layers whose files cannot be read are skipped. Times are medians of three rounds,
    interleaved; they hold for this machine.

    `beam_size` None is the model's own default. `model` is the folder of a translation model, `text` names files with
    one source sentence a line. Raises InputError where they have no sentence, ModelError for a model that cannot be
    read, OutputError for one that cannot be written.
    """
    require(sentences >= 1, "sentences", sentences, "1 or more")
    lines = [line for line in islice(read_all([Path(one) for one in text]), 10 * sentences) if line.strip()][:sentences]
    if not lines:
        raise InputError("the text has no sentence; give a file with one source sentence a line.")
    say = progress or (lambda _: None)
    say("the reference: float32, exact")
    reference = Translator(model, machine=MachineOptions(exact=True, threads=threads))
    folder = reference.loaded.folder
    beam = beam_size or reference.loaded.options.search.beam_size
    wanted = [one.text for one in reference.translate(lines, beam_size=beam)]
    if not (folder / LOW_BIT).is_file():
        say("fitting a low-bit preview")
        fit_preview(folder, [Path(one) for one in text])
    skipped = _unusable(reference)
    for why in filter(None, skipped.values()):
        say(why)
    measured: dict[tuple[ComputeType, str], list[tuple[float, float]]] = {}
    same: dict[tuple[ComputeType, str], float] = {}
    translators = {kind: Translator(folder, compute_type=kind, threads=threads) for kind in TYPES}
    for round_ in range(ROUNDS):
        for kind, layer in _choices(skipped):
            say(f"round {round_ + 1} of {ROUNDS}: {kind}, {layer}")
            found, times = _measure(translators[kind], lines, layer, beam)
            measured.setdefault((kind, layer), []).append(times)
            same[kind, layer] = sum(map(str.__eq__, found, wanted)) / len(lines)
    choices = tuple(
        Choice(kind, layer, median(one for one, _ in times), median(batch for _, batch in times), same[kind, layer])
        for (kind, layer), times in measured.items()
    )
    sound = [c for c in choices if c.output_layer in KEEP and c.same >= SAME]
    if not sound:  # float32 with the exact layer is always among them
        raise ModelError(f"{folder}: no choice gives the answers of the reference; convert the model again.")
    best = min(sound, key=lambda choice: choice.one)
    evidence = {"beam_size": beam, "sentences": len(lines), "choices": [asdict(choice) for choice in choices]}
    save_tuned(folder, best.compute_type, best.output_layer, evidence)
    return Tuning(folder, choices, best, beam, len(lines), tuple(filter(None, dict.fromkeys(skipped.values()))))


def _unusable(translator: Translator) -> dict[str, str]:
    """Output layers that the model cannot have, as one whose file is of an older version; and why."""
    found = {}
    for layer in LAYERS:
        if layer == "shortlist-net" and not (translator.loaded.folder / NET.facts).is_file():
            found[layer] = ""  # nothing to say of what few models have
            continue
        try:
            translator.output_layer(DecodeOptions.of(output_layer=layer))
        except ModelError as error:
            found[layer] = f"Not measured: {error}"
    return found


def _choices(skipped: Collection[str]) -> Iterator[tuple[ComputeType, str]]:
    """All choices but `skipped`; of float32 only the slow layer and the fast one, which say what the type costs."""
    for kind in TYPES:
        for layer in LAYERS:
            if layer in skipped:
                continue
            if kind == "int8" or layer in ("scan", "exact"):
                yield kind, layer


def _measure(
    translator: Translator, lines: Sequence[str], layer: str, beam_size: int
) -> tuple[list[str], tuple[float, float]]:
    """The answers, and milliseconds a sentence one at a time and in batches."""
    options = {"beam_size": beam_size, "output_layer": layer}
    translator.translate(lines[:2], **options)  # type: ignore[arg-type]
    began = time.perf_counter()
    found = [translator.translate([line], **options)[0].text for line in lines]  # type: ignore[arg-type]
    one = time.perf_counter() - began
    began = time.perf_counter()
    for first in range(0, len(lines), BATCH):
        translator.translate(lines[first : first + BATCH], **options)  # type: ignore[arg-type]
    batch = time.perf_counter() - began
    return found, (1000 * one / len(lines), 1000 * batch / len(lines))
