"""The report on the preview of a model: the tokens that each of its stages leaves on a text."""

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
from sharpbeam.output_layers.preview import Preview, PreviewLayer
from sharpbeam.report.layer import LayerReport
from sharpbeam.text.lines import read_all


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

    def text(self) -> str:
        """The report, human-readable."""
        return (
            f"{self.layer}, {self.rows} rows of a beam of 5: {self.matter:.2f} of {self.tokens} tokens matter. "
            f"The first coordinates leave {self.previewed:.1f}, all coordinates {self.compared:.2f}, which take exact "
            f"logits.\n{self.skipped:.1%} of the rows are skipped, {self.whole:.1%} take an exact sum over all tokens; "
            f"the others' normalizers look up {self.summed:.1f} tokens. A token that matters is missed in "
            f"{self.missed:.3%} of the rows."
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
    reports = report_previews(loaded, records)
    figures = {"model": folder.name, "layers": [asdict(one) for one in reports]}
    return LayerReport(figures, "\n".join(one.text() for one in reports))


def report_previews(loaded: LoadedModel, records: Records) -> list[PreviewReport]:
    """The model's preview on hidden vectors, at each fidelity that it has; raises ModelError without one."""
    weight, bias = loaded.model.output()
    preview: Preview = loaded.artifacts.read("preview")
    hidden, floor = (np.ascontiguousarray(records[name], np.float32) for name in ("hidden", "floor"))
    matter = float((records["log_prob"] > floor[:, None]).sum(axis=1).mean())
    names = ["preview", f"preview, fidelity {preview.fidelity:.5f}"][: 1 + (preview.fidelity > 0)]
    reports = []
    for measured, name in enumerate(names):
        layer = PreviewLayer.build(weight, bias, preview, loaded.machine.isa, measured=bool(measured))
        counts = layer.native.topk_details(hidden, records["token"].shape[1], True, floor=floor)[3]
        share = {key: counts[key] / len(hidden) for key in ("skipped", "previewed", "compared", "whole")}
        share |= {"summed": counts["refined"] / len(hidden)}
        wrong = float(missed(weight, bias, layer, records).mean())
        reports.append(PreviewReport(name, len(hidden), len(bias), matter, missed=wrong, **share))
    return reports
