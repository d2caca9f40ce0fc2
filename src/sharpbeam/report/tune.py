"""`tune`: the number type and output layer that are fastest for a model on this machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from sharpbeam.api.translator import Translator
from sharpbeam.decoding.loading import find_model, folder_to_fill
from sharpbeam.fit.texts import sentences_or_sample
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.machine import ComputeType
from sharpbeam.options.schema import require
from sharpbeam.output_layers.registry import find_output_layer, output_layers
from sharpbeam.storage.artifacts import present_artifacts
from sharpbeam.storage.records import TUNED, save_tuned
from sharpbeam.text.lines import TextInput

SENTENCES = 100  # that every choice translates
ROUNDS = 3  # of all choices, interleaved
SAME = 0.99  # share of the sentences that have the answer of the reference
TYPES: tuple[ComputeType, ...] = ("int8", "int16", "float32")


@dataclass(frozen=True)
class TunedChoice:
    """A number type with an output layer, as measured."""

    compute_type: str
    output_layer: str
    ms: float  # milliseconds for a sentence, one at a time, median of the rounds
    same: float  # share of the sentences with the answer of the reference

    @property
    def name(self) -> str:
        """Number type and output layer."""
        return f"{self.compute_type} {self.output_layer}"


@dataclass(frozen=True)
class Tuning:
    """All choices, the present one, and the best."""

    folder: Path
    choices: tuple[TunedChoice, ...]
    present: TunedChoice
    best: TunedChoice
    beam_size: int
    sentences: int
    written: bool  # whether tuned.json has the best one now
    skipped: tuple[str, ...] = ()  # why output layers were left out, a line each

    def table(self) -> str:
        """The choices, fastest first, each against the present one; and the outcome."""
        lines = [f"{'':20}{'a sentence':>15}{'time now':>10}{'same as float32':>17}"]
        for choice in sorted(self.choices, key=lambda c: c.ms):
            notes = [text for text, one in (("now", self.present), ("best", self.best)) if choice is one]
            figures = f"{choice.ms:12.2f} ms{f'x{choice.ms / self.present.ms:.2f}':>10}{choice.same:17.1%}"
            lines.append(f"{choice.name:20}{figures}" + "".join(f"  <- {note}" for note in notes))
        return "\n".join([*lines, *self.skipped, self._outcome()])

    def _outcome(self) -> str:
        """The choice that is used from now on, and how to undo it."""
        if self.best is self.present:
            return f"Kept: nothing is faster than {self.present.name} with {self.present.same:.1%} of the answers."
        gain = f"{self.best.name} takes {self.best.ms / self.present.ms:.0%} of the time of {self.present.name}"
        if not self.written:
            return f"{gain}; nothing was written."
        return f"{gain}. {self.folder / TUNED} has it: translate and serve use it from now on; tune --undo removes it."


def undo_tuning(model: str | Path) -> bool:
    """Remove the choice of `tune` from a model folder; returns whether there was one."""
    path = folder_to_fill(model) / TUNED
    there = path.exists()
    path.unlink(missing_ok=True)
    return there


def tune(
    model: str | Path,
    text: str | Path | Sequence[str | Path] = (),
    *,
    beam_size: int | None = None,
    sentences: int = SENTENCES,
    threads: int = 1,
    same: float = SAME,
    dry_run: bool = False,
    source_language: str = "",
    target_language: str = "",
    progress: Callable[[str], None] | None = None,
) -> Tuning:
    """Measure number types and output layers on `text`, and write the fastest that qualifies to the model.

    A choice qualifies if at least `same` of the sentences have the answer of float32 with the exact layer, or as many
    as with the present choice. If one that qualifies takes less time for one sentence at a time than the present one,
    the fastest goes to tuned.json; `compute_type="auto"` and `output_layer="auto"` mean it from then on. Otherwise, and
    with `dry_run`, nothing is written. Layers without a sound artifact are skipped, as is a shortlist without a
    fallback test, which cannot say what it lacks. Times are medians of three rounds, interleaved, on this machine.

    `beam_size` None is the model's own default, as are languages that are empty. `model` is the folder of a translation
    model, `text` names files with one source sentence a line; without any, sample sentences are translated. Raises
    InputError for text without a sentence, ModelError for a model that cannot be read, OutputError for one that cannot
    be written to: the models that come with the package are not written to.
    """
    require(sentences >= 1, "sentences", sentences, "1 or more")
    require(0 < same <= 1, "same", same, "above 0 and at most 1")
    folder = find_model(model) if dry_run else folder_to_fill(model)
    say = progress or (lambda _: None)
    named: Any = {k: v for k, v in (("source_language", source_language), ("target_language", target_language)) if v}
    reference = Translator(folder, machine=MachineOptions(exact=True, threads=threads), **named)
    files = [*map(Path, [text] if isinstance(text, (str, Path)) else text)]
    lines = sentences_or_sample(reference.loaded, TextInput(files) if files else None, sentences)
    beam = beam_size or reference.loaded.options.search.beam_size
    say("the reference: float32, exact")
    answers = [one.text for one in reference.translate(lines, raw=True, beam_size=beam)]
    translators = {kind: Translator(folder, compute_type=kind, threads=threads, **named) for kind in TYPES}
    loaded = Translator(folder, threads=threads, compute_type="auto").loaded
    present = loaded.machine.compute_type, loaded.layer_name(loaded.options.changed(beam_size=beam))  # without flags
    names, skipped = _choices(translators["int8"], present)
    times: dict[tuple[ComputeType, str], list[float]] = {name: [] for name in names}
    agreement = dict[tuple[ComputeType, str], float]()
    for number, (kind, layer) in enumerate(names * ROUNDS, 1):
        say(f"{number} of {ROUNDS * len(names)}: {kind} {layer}")
        texts, milliseconds = _measure(translators[kind], lines, layer, beam)
        times[kind, layer].append(milliseconds)
        agreement[kind, layer] = sum(map(str.__eq__, texts, answers)) / len(lines)
    choices = {name: TunedChoice(*name, median(times[name]), agreement[name]) for name in names}
    now = choices[present]
    best = min((one for one in choices.values() if one.same >= min(same, now.same)), key=lambda one: one.ms)
    written = best is not now and not dry_run
    if written:
        evidence = {"beam_size": beam, "sentences": len(lines), "choices": [asdict(one) for one in choices.values()]}
        digests = loaded.artifacts.digests(best.output_layer)
        save_tuned(folder, best.compute_type, best.output_layer, digests, evidence)
    return Tuning(folder, tuple(choices.values()), now, best, beam, len(lines), written, skipped)


def _choices(
    translator: Translator, present: tuple[ComputeType, str]
) -> tuple[list[tuple[ComputeType, str]], tuple[str, ...]]:
    """All choices that the model can have, and why others were left out.

    Of int16 and float32 only the layers that need no fit, which say what the type costs.
    """
    names, artifacts = [present], translator.loaded.artifacts
    for layer in output_layers():
        entry = find_output_layer(layer)
        if all(map(artifacts.has, entry.needs + entry.can_use)):
            names += [(kind, layer) for kind in TYPES if kind == "int8" or not entry.needs]
    faults = filter(None, map(artifacts.fault, present_artifacts(translator.loaded.folder)))
    return list(dict.fromkeys(names)), tuple(f"Not measured: {fault}" for fault in faults)


def _measure(translator: Translator, lines: Sequence[str], layer: str, beam_size: int) -> tuple[list[str], float]:
    """The answers, and milliseconds a sentence, one at a time."""
    options = {"beam_size": beam_size, "output_layer": layer}
    translator.translate(lines[:2], raw=True, **options)  # type: ignore[arg-type]
    began = time.perf_counter()
    texts = [translator.translate([line], raw=True, **options)[0].text for line in lines]  # type: ignore[arg-type]
    return texts, 1000 * (time.perf_counter() - began) / len(lines)
