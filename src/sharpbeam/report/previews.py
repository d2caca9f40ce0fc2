"""The report on a low-bit preview: the tokens that each stage leaves on text, in figures and a picture."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.api.translator import Translator
from sharpbeam.decoding.loading import LoadedModel, find_model, load_model
from sharpbeam.errors import OptionError
from sharpbeam.fit.low_bit_job import BEAM, collected
from sharpbeam.fit.texts import directed_texts
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.machine import MachineOptions
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.proven import LowBit, ProvenLayer
from sharpbeam.report.drawing import drawing
from sharpbeam.report.screen_report import PICTURE, REPORT
from sharpbeam.storage.atomic import write_text
from sharpbeam.storage.low_bit import FILE, read_low_bit
from sharpbeam.storage.screens import FACTS
from sharpbeam.text.lines import read_all

SENTENCES = 200  # that exact sums are counted on
MOST = 10  # tokens of a row that a beam of 5 can use


@dataclass(frozen=True)
class PreviewReport:
    """One layer, `proven` or `calibrated`, over the rows of a beam of 5; all but `rows` and `tokens` a row."""

    layer: str
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
    """The report on a model's low-bit preview, with the interface of `screen_report.ScreenReport`."""

    model: str  # name of its folder
    layers: list[PreviewReport]

    def record(self) -> dict[str, Any]:
        """The report as JSON."""
        return asdict(self)

    def summary(self, words: int = 0) -> str:
        """For people; a preview has no words to show."""
        return "\n".join(one.text() for one in self.layers)

    def write(self, folder: str | Path) -> None:
        """Write the report and its picture as `ScreenReport.write` does."""
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        write_text(place / REPORT, json.dumps(self.record(), indent=1) + "\n")
        draw_previews(self.layers, place / PICTURE)


def only_previewed(model: str) -> bool:
    """Whether a model has a low-bit preview and no screen; raises ModelError where there is no model."""
    folder = find_model(model)
    return (folder / FILE).is_file() and not (folder / FACTS).is_file()


def preview_report(model: str, text: Sequence[str], *, vectors: int, machine: MachineOptions) -> PreviewReports:
    """Report the tokens that each stage of a model's preview leaves on a text; raises OptionError without text."""
    loaded = load_model(model, machine)
    texts = directed_texts(text, loaded.language_tags)
    if not texts:
        raise OptionError("text is empty; a preview is measured on source sentences: give --text.")
    return PreviewReports(loaded.folder.name, report_previews(loaded, read_all(texts[0].files), vectors))


def report_previews(loaded: LoadedModel, lines: Iterable[str], vectors: int) -> list[PreviewReport]:
    """Both layers of the model's preview over `vectors` rows of source sentences; raises ModelError without one."""
    weight, bias = loaded.model.output()
    preview = LowBit.from_arrays(read_low_bit(loaded.folder, weight, bias))
    lines = list(lines)
    with tempfile.TemporaryDirectory(prefix="sharpbeam-") as work:
        records = collected(loaded, lines, vectors, Path(work) / "vectors")
    hidden = np.ascontiguousarray(records["hidden"], np.float32)
    floor = np.ascontiguousarray(records["floor"], np.float32)
    best = ExactLayer.build(weight, bias).topk(hidden, min(MOST, len(bias)))
    matters = best.log_prob > floor[:, None] + 1e-3  # a normalizer's error may move what is nearer
    reports = []
    for name in ("proven", "calibrated"):
        layer = ProvenLayer.build(weight, bias, preview, loaded.machine.isa, calibrated=name == "calibrated")
        log_prob, token, _, counts = layer.native.topk_details(hidden, min(MOST, len(bias)), True, floor=floor)
        kept = np.where(np.isfinite(log_prob), token, -1)
        missed = (matters & ~(best.token[:, :, None] == kept[:, None, :]).any(axis=2)).any(axis=1)
        rows = counts["rows"]
        share = {key: counts[key] / rows for key in ("skipped", "previewed", "compared", "whole")}
        reports.append(
            PreviewReport(
                name,
                rows,
                len(bias),
                float(matters.sum(axis=1).mean()),
                summed=counts["refined"] / rows,
                missed=float(missed.mean()),
                settled=settled_share(loaded, lines[:SENTENCES]) if name == "proven" else None,
                **share,
            )
        )
    return reports


def settled_share(loaded: LoadedModel, lines: Sequence[str]) -> float | None:
    """The share of rows whose exact sum a beam of 5 asks for, translating `lines`; None for other models."""
    if architecture_of(loaded.config).task != "translation":
        return None
    translator = Translator(loaded.folder, machine=loaded.machine)
    translator.translate(lines, beam_size=BEAM, output_layer="proven")
    return translator.work.settled / max(1, translator.work.expansions)


def draw_previews(reports: list[PreviewReport], path: Path) -> None:
    """Draw the tokens that each stage leaves to `path`, as PNG; raises SharpbeamError without Matplotlib."""
    with drawing(path, "a preview", (7, 4)) as axis:
        stages = {"all": "tokens", "first coordinates": "previewed", "all coordinates": "compared", "matter": "matter"}
        for i, report in enumerate(reports):
            left: dict[str, Any] = asdict(report)
            heights = [left[key] for key in stages.values()]
            axis.bar(np.arange(len(stages)) + 0.4 * (i - 0.5), heights, 0.4, label=report.layer)
        axis.set(yscale="log", ylabel="tokens left in a row", title="what each stage of the preview leaves")
        axis.set_xticks(range(len(stages)), list(stages))
        axis.legend()
