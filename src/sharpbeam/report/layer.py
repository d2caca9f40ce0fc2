"""`layer_report`: what the fitted output layer of a model does, on the text of its fit and on other text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from sharpbeam.decoding.languages import LanguageTags
from sharpbeam.decoding.loading import find_model
from sharpbeam.errors import ModelError
from sharpbeam.fit.texts import directed_texts
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.storage.artifacts import present_artifacts
from sharpbeam.storage.model_folder import read_config
from sharpbeam.text.json import read_json


@dataclass(frozen=True)
class LayerReport:
    """The report on one layer."""

    figures: Mapping[str, Any]
    text: str

    def record(self) -> Mapping[str, Any]:
        """The report as JSON."""
        return self.figures

    def summary(self) -> str:
        """The report as text."""
        return self.text


def layer_report(
    model: str | Path,
    text: str | Path | Sequence[str | Path] = (),
    *,
    vectors: int = 20_000,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Callable[[int], None] | None = None,
) -> LayerReport:
    """Report on the screen of a model, or on its preview if it has no screen.

    `text` names files of source sentences, of a multilingual model as "de-en=FILE"; not those of the fit. Figures are
    measured on `vectors` hidden vectors or a few more. Without text those of a screen are of the fit's held-out
    sentences; a preview needs it. `progress` is called with numbers of vectors.

    Raises ModelError for a model without either, OptionError for text in a direction that no screen serves, and
    InputError for text that cannot be read.
    """
    require(vectors >= 1, "vectors", vectors, "1 or more")
    folder = find_model(str(model))
    files = [str(one) for one in ([text] if isinstance(text, str | Path) else text)]
    texts = directed_texts(files, LanguageTags.of(read_config(folder)))
    layer = "screen" if {"preview", "screen"} & {*present_artifacts(folder)} != {"preview"} else "preview"
    module = import_module(f"sharpbeam.report.{layer}")
    report: LayerReport = module.build_report(folder, texts, vectors, machine, progress or (lambda _: None))
    return report


def is_hugging_face(model: str) -> bool:
    """Whether `model` is a folder of a Hugging Face model: its config.json names a model_type and no format of ours."""
    try:
        facts = read_json(Path(model) / "config.json")
    except ModelError:
        return False
    return "model_type" in facts and "format_version" not in facts
