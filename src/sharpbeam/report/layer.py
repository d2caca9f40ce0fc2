"""`layer_report`: what the fitted output layer of a model does, on the text of its fit and on other text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from sharpbeam.errors import ModelError
from sharpbeam.options.machine import MachineOptions
from sharpbeam.text.json import read_json


class LayerReport(Protocol):
    """A report on one layer."""

    def record(self) -> Mapping[str, Any]:
        """The report as JSON."""

    def summary(self, tokens: int = 15) -> str:
        """The report as text, with at most `tokens` of the tokens that nearly every set has."""


def layer_report(
    model: str | Path,
    text: str | Path | Sequence[str | Path] = (),
    *,
    vectors: int = 20_000,
    clusters: int = 5,
    tokens: int = 15,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Callable[[int], None] | None = None,
) -> LayerReport:
    """Report on the screen of a model, or on its preview if it has no screen.

    `text` names files of source sentences, of a multilingual model as "de-en=FILE"; not those of the fit. Figures are
    measured on at least `vectors` hidden vectors. Without it those of a screen are of the fit's held-out sentences.
    `tokens` tokens are shown of each of `clusters` clusters. `progress` is called with numbers of vectors.

    Raises ModelError for a model without either, OptionError for text in a direction that no screen serves, and
    InputError for text that cannot be read.
    """
    from sharpbeam.report.previews import only_previewed, preview_report
    from sharpbeam.report.screen_report import screen_report

    texts = [str(one) for one in ([text] if isinstance(text, str | Path) else text)]
    if only_previewed(str(model)):
        return preview_report(str(model), texts, vectors=vectors, machine=machine)
    return screen_report(
        model, texts, vectors=vectors, clusters=clusters, tokens=tokens, machine=machine, progress=progress
    )


def is_hugging_face(model: str) -> bool:
    """Whether `model` is a folder of a Hugging Face model: its config.json names a model_type and no format of ours."""
    try:
        facts = read_json(Path(model) / "config.json")
    except ModelError:
        return False
    return "model_type" in facts and "format_version" not in facts
