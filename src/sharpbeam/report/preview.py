"""The report on the preview of a model: the tokens that it leaves on a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from sharpbeam.decoding.loading import LoadedModel, load_model
from sharpbeam.errors import OptionError
from sharpbeam.fit.preview.job import BEAM, TOP_K, missed
from sharpbeam.fit.screen.collect import Records, collect_once
from sharpbeam.fit.texts import DirectedText
from sharpbeam.options.machine import MachineOptions
from sharpbeam.output_layers.preview import PreviewLayer
from sharpbeam.report.layer import LayerReport
from sharpbeam.text.lines import read_all


@dataclass(frozen=True)
class PreviewReport:
    """The preview over the rows of a beam of 5; all but `rows` and `tokens` a row."""

    rows: int
    tokens: int  # of the vocabulary
    matter: float  # tokens that can change the search
    exact: float  # tokens that take exact logits, for the best ones and for the normalizer
    skipped: float  # share of rows in which none can matter
    whole: float  # share of rows with the exact logits of all tokens
    missed: float  # share of rows in which a token that matters was left out

    def text(self) -> str:
        """The report, human-readable."""
        return (
            f"preview, {self.rows} rows of a beam of 5: {self.matter:.2f} of {self.tokens} tokens matter. "
            f"{self.exact:.1f} take exact logits; {self.skipped:.1%} of the rows are skipped, {self.whole:.1%} take "
            f"the logits of all tokens. A token that matters is missed in {self.missed:.4%} of the rows."
        )


def build_report(
    folder: Path,
    texts: Sequence[DirectedText],
    vectors: int,
    machine: MachineOptions,
    progress: Callable[[int], None],
) -> LayerReport:
    """Report on the preview of a model; raises OptionError without text."""
    if not texts:
        raise OptionError("text is empty; a preview is measured on source sentences: give --text.")
    loaded, text = load_model(folder, machine), texts[0]
    top_k = min(TOP_K, loaded.vocab_size)
    records = collect_once(loaded, read_all(text.files), vectors, BEAM, top_k, text.direction, progress)
    report = report_preview(loaded, records)
    return LayerReport({"model": folder.name, "preview": asdict(report)}, report.text())


def report_preview(loaded: LoadedModel, records: Records) -> PreviewReport:
    """The model's preview on hidden vectors; raises ModelError without one."""
    weight, bias = loaded.model.output()
    hidden, floor = (np.ascontiguousarray(records[name], np.float32) for name in ("hidden", "floor"))
    matter = float((records["log_prob"] > floor[:, None]).sum(axis=1).mean())
    layer = PreviewLayer.build(weight, bias, loaded.artifacts.read("preview"), loaded.machine.isa)
    counts = layer.native.topk_details(hidden, records["token"].shape[1], True, floor=floor)[3]
    share = {key: counts[key] / len(hidden) for key in ("exact", "skipped", "whole")}
    wrong = float(missed(layer, records).mean())
    return PreviewReport(len(hidden), len(bias), matter, missed=wrong, **share)
