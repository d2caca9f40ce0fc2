"""The report on a preview: the tokens that each stage leaves on text."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.api.translator import Translator
from sharpbeam.decoding.loading import LoadedModel, find_model, load_model
from sharpbeam.errors import OptionError
from sharpbeam.fit.preview.job import BEAM, collected, missed
from sharpbeam.fit.texts import directed_texts
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.machine import MachineOptions
from sharpbeam.output_layers.preview import Preview, PreviewLayer
from sharpbeam.storage.artifacts import present_artifacts
from sharpbeam.text.lines import read_all

SENTENCES = 200  # that exact sums are counted on


@dataclass(frozen=True)
class PreviewReport:
    """The preview at one fidelity over the rows of a beam of 5; all but `rows` and `tokens` a row."""

    layer: str  # "preview", or with its fidelity below 1
    rows: int
    tokens: int  # of the vocabulary
    matter: float  # tokens that can change the search
    skipped: float  # share of rows in which none does, as the bounds show
    previewed: float  # tokens that the first coordinates leave
    compared: float  # tokens that all coordinates leave: they take exact logits
    summed: float  # tokens that the normalizer looks up
    whole: float  # share of rows with the exact logits of all tokens
    missed: float  # share of rows in which a token that matters was left out
    settled: float | None = None  # share of rows of whole translations that a decision asked for an exact sum of

    def text(self) -> str:
        """For people."""
        settled = "" if self.settled is None else f" Whole translations ask for an exact sum of {self.settled:.2%}."
        return (
            f"{self.layer}, {self.rows} rows of a beam of 5: {self.matter:.2f} of {self.tokens} tokens matter. "
            f"The first coordinates leave {self.previewed:.1f}, all coordinates {self.compared:.2f}, which take exact "
            f"logits.\n{self.skipped:.1%} of the rows are skipped, {self.whole:.1%} take an exact sum over all tokens; "
            f"the others' normalizers look up {self.summed:.1f} tokens. A token that matters is missed in "
            f"{self.missed:.3%} of the rows.{settled}"
        )


@dataclass(frozen=True)
class PreviewReports:
    """The report on a model's preview, with the interface of `screen_report.ScreenReport`."""

    model: str  # name of its folder
    layers: list[PreviewReport]

    def record(self) -> dict[str, Any]:
        """The report as JSON."""
        return asdict(self)

    def summary(self, tokens: int = 0) -> str:
        """For people; a preview has no tokens to show."""
        return "\n".join(one.text() for one in self.layers)


def only_previewed(model: str) -> bool:
    """Whether a model has a preview and no screen; raises ModelError where there is no model."""
    folder = find_model(model)
    there = present_artifacts(folder)
    return "preview" in there and "screen" not in there


def preview_report(model: str, text: Sequence[str], *, vectors: int, machine: MachineOptions) -> PreviewReports:
    """Report the tokens that each stage of a model's preview leaves on a text; raises OptionError without text."""
    loaded = load_model(model, machine)
    texts = directed_texts(text, loaded.language_tags)
    if not texts:
        raise OptionError("text is empty; a preview is measured on source sentences: give --text.")
    return PreviewReports(loaded.folder.name, report_previews(loaded, read_all(texts[0].files), vectors))


def report_previews(loaded: LoadedModel, lines: Iterable[str], vectors: int) -> list[PreviewReport]:
    """The model's preview over `vectors` rows of source sentences; raises ModelError without one."""
    weight, bias = loaded.model.output()
    preview: Preview = loaded.artifacts.read("preview")
    lines = list(lines)
    with tempfile.TemporaryDirectory(prefix="sharpbeam-") as work:
        records = collected(loaded, lines, vectors, Path(work) / "vectors")
    hidden = np.ascontiguousarray(records["hidden"], np.float32)
    floor = np.ascontiguousarray(records["floor"], np.float32)
    k, matters = records["token"].shape[1], (records["log_prob"] > floor[:, None]).sum(axis=1)
    reports = []
    names = ["preview", f"preview, fidelity {preview.fidelity:.5f}"][: 1 + (preview.fidelity > 0)]
    for measured, name in enumerate(names):
        layer = PreviewLayer.build(weight, bias, preview, loaded.machine.isa, measured=bool(measured))
        counts = layer.native.topk_details(hidden, k, True, floor=floor)[3]
        rows = counts["rows"]
        share = {key: counts[key] / rows for key in ("skipped", "previewed", "compared", "whole")}
        reports.append(
            PreviewReport(
                name,
                rows,
                len(bias),
                float(matters.mean()),
                summed=counts["refined"] / rows,
                missed=float(missed(weight, bias, layer, records).mean()),
                settled=settled_share(loaded, lines[:SENTENCES]) if not measured else None,
                **share,
            )
        )
    return reports


def settled_share(loaded: LoadedModel, lines: Sequence[str]) -> float | None:
    """The share of rows whose exact sum a beam of 5 asks for, translating `lines`; None for other models."""
    if architecture_of(loaded.config).task != "translation":
        return None
    translator = Translator(loaded.folder, machine=loaded.machine)
    translator.translate(lines, beam_size=BEAM, output_layer="preview")
    return translator.work.settled / max(1, translator.work.expansions)
