"""Comparison of two systems on the same text: identical outputs, BLEU and chrF with paired bootstrap, differences.

CVP (section 3.4) shows that a faster layer keeps the quality by the share of identical outputs, by BLEU, and by
annotators who score the outputs that differ; the first two are here.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sharpbeam.errors import InputError, OptionError
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.schema import changed, fields_of, require
from sharpbeam.report.quality import load_metrics
from sharpbeam.text.lines import check_readable, read_lines

RESAMPLES = 1000  # of the bootstrap, sacreBLEU's default
SHOWN = 5  # differing sentences in a summary
System = str | Path | Sequence[str]


@dataclass(frozen=True)
class PairedScore:
    """One metric of both systems on the same references, 0 to 100."""

    name: str  # BLEU or chrF2
    a: float
    b: float
    a_interval: float  # half the width of the 95% interval over resampled test sets
    b_interval: float
    p_value: float  # chance of a difference at least as large between equally good systems
    signature: str  # sacreBLEU's, which says exactly how it was computed


@dataclass(frozen=True)
class Comparison:
    """Outputs of systems A and B for the same sources, and how they differ."""

    names: tuple[str, str]
    sources: list[str]  # empty if they are not known
    references: list[str]  # empty if they are not known
    a: list[str]
    b: list[str]
    scores: list[PairedScore]  # empty without references

    @property
    def differing(self) -> list[int]:
        """Indices of the sentences whose outputs differ."""
        return [index for index, (a, b) in enumerate(zip(self.a, self.b, strict=True)) if a != b]

    @property
    def identical(self) -> float:
        """Share of the sentences with identical outputs."""
        return (len(self.a) - len(self.differing)) / len(self.a)

    def summary(self, shown: int = SHOWN) -> str:
        """The figures and the first `shown` sentences that differ, as text."""
        differing, count = self.differing, len(self.a)
        lines = [f"A: {self.names[0]}", f"B: {self.names[1]}"]
        lines.append(f"{count - len(differing)} of {count} outputs are identical ({self.identical:.2%}).")
        for score in self.scores:
            lines.append(
                f"{score.name:<6} A {score.a:.2f} ± {score.a_interval:.2f}, B {score.b:.2f} ± {score.b_interval:.2f}, "
                f"difference {score.b - score.a:+.2f}, p = {score.p_value:.4f}   {score.signature}"
            )
        for index in differing[:shown]:
            lines.append(f"\n{index + 1}")
            lines += [f"  source     {self.sources[index]}"] if self.sources else []
            lines += [f"  reference  {self.references[index]}"] if self.references else []
            lines += [f"  A          {self.a[index]}", f"  B          {self.b[index]}"]
        if len(differing) > shown > 0:
            lines.append(f"\n{len(differing) - shown} more sentences differ.")
        return "\n".join(lines)

    def record(self) -> dict[str, Any]:
        """The figures as plain values, for JSON."""
        return {
            "a": self.names[0],
            "b": self.names[1],
            "sentences": len(self.a),
            "identical": self.identical,
            "scores": [vars(score) for score in self.scores],
        }

    def write_differences(self, path: str | Path) -> None:
        """Write the sentences that differ as JSON lines: line (from 1), source, reference, a, b."""
        with Path(path).open("w", encoding="utf-8", newline="\n") as file:
            for index in self.differing:
                line: dict[str, Any] = {"line": index + 1}
                line |= {"source": self.sources[index]} if self.sources else {}
                line |= {"reference": self.references[index]} if self.references else {}
                line |= {"a": self.a[index], "b": self.b[index]}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")


def compare(
    a: System,
    b: System,
    sources: Sequence[str] = (),
    references: Sequence[str] = (),
    *,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    resamples: int = RESAMPLES,
    progress: Callable[[str, int], None] | None = None,
) -> Comparison:
    """Compare two systems on the same sources.

    A system is a list of outputs, the path of a file of outputs (one a line; .gz too), or a model with options, as
    "de-en" or "runs/de-en/best,output_layer=scan,beam_size=1": the fields of DecodeOptions and MachineOptions. A model
    translates `sources`; without options of its own it runs on `machine`. With `references`, one for each source, the
    systems get BLEU and chrF, and the difference a p-value from paired bootstrap with `resamples` resampled test sets,
    by sacreBLEU. `progress` is called with the name of a system and the number of sentences it has just translated.

    Raises InputError for files that cannot be read and for numbers of lines that differ, OptionError for unknown
    options and for a model without sources, and SharpbeamError if sacreBLEU is needed and not installed.
    """
    require(resamples >= 1, "resamples", resamples, "1 or more")
    if references:
        load_metrics()  # before minutes of translating
    (a_name, run_a), (b_name, run_b) = (_opened(one, machine, sources, progress) for one in (a, b))
    outputs = [run_a(), run_b()]
    counts = {"sources": len(sources), "references": len(references), "A": len(outputs[0]), "B": len(outputs[1])}
    lines = {name: count for name, count in counts.items() if count or name in "AB"}
    if len(set(lines.values())) > 1 or not outputs[0]:
        shown = ", ".join(f"{name} {count}" for name, count in lines.items())
        raise InputError(
            f"the systems cannot be compared: the numbers of lines are {shown}; they must be equal and above 0."
        )
    scores = _scores(outputs, list(references), resamples) if references else []
    return Comparison((a_name, b_name), list(sources), list(references), outputs[0], outputs[1], scores)


def _opened(
    system: System, machine: MachineOptions, sources: Sequence[str], progress: Callable[[str, int], None] | None
) -> tuple[str, Callable[[], list[str]]]:
    """The system's name, and a function for its outputs; what can be checked is checked here."""
    if not isinstance(system, str | Path):
        return "given outputs", lambda: list(system)
    name = str(system)
    if Path(name).is_file():
        check_readable([Path(name)])
        return name, lambda: list(read_lines(Path(name)))
    model, _, settings = name.partition(",")
    own: dict[str, dict[str, Any]] = {"decode": {}, "machine": {}}
    for part in filter(None, settings.split(",")):
        option, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"{name!r} has {part!r}; options are given as MODEL,NAME=VALUE,NAME=VALUE.")
        own["machine" if option in fields_of(MachineOptions) else "decode"][option] = _value(value)
    machine = changed(machine, own["machine"], name)
    from sharpbeam.api.translator import Translator
    from sharpbeam.decoding.loading import find_models

    DecodeOptions().changed(**own["decode"])  # raises, as the next one
    find_models(model)
    if not sources:
        raise OptionError(f"{name!r} is a model, which needs sources; give a file of source sentences.")

    def run() -> list[str]:
        def advance(number: int) -> None:
            if progress is not None:
                progress(name, number)

        translations = Translator(model, machine=machine).translate(
            sources, raw=True, progress=advance, **own["decode"]
        )
        return [translation.text for translation in translations]

    return name, run


def _value(text: str) -> Any:
    """The value of an option: a number, true, false, none, or text."""
    try:
        return ast.literal_eval(text.capitalize())
    except (SyntaxError, ValueError):
        return text


def _scores(outputs: Sequence[Sequence[str]], references: list[str], resamples: int) -> list[PairedScore]:
    metrics = load_metrics()
    from sacrebleu.significance import PairedTest

    test = PairedTest(
        [("A", outputs[0]), ("B", outputs[1])],
        {"BLEU": metrics.BLEU(), "chrF2": metrics.CHRF()},
        [references],
        test_type="bs",
        n_samples=resamples,
    )
    signatures, columns = test()
    results: dict[str, Any] = {name: pair for name, pair in columns.items() if name != "System"}
    return [
        PairedScore(name, a.score, b.score, float(a.ci), float(b.ci), float(b.p_value), str(signatures[name]))
        for name, (a, b) in results.items()
    ]
