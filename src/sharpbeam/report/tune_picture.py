"""The picture of a tuning: two bars for each choice, fastest first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sharpbeam.report.drawing import drawing

if TYPE_CHECKING:
    from sharpbeam.report.tune import Tuning


def draw_tuning(tuning: Tuning, path: Path) -> None:
    """Draw `tuning` to `path`, as PNG; raises SharpbeamError without Matplotlib."""
    choices = sorted(tuning.choices, key=lambda choice: -choice.one)
    names = [f"{one.compute_type} {one.output_layer}{'  (chosen)' if one is tuning.best else ''}" for one in choices]
    with drawing(path, "a tuning", (9, 1.2 + 0.5 * len(choices))) as axis:
        places = range(len(choices))
        for shift, label, times in (
            (0.2, "one at a time", [one.one for one in choices]),
            (-0.2, "batch of 32", [one.batch for one in choices]),
        ):
            bars = axis.barh([place + shift for place in places], times, height=0.38, label=label)
            axis.bar_label(bars, [f" {value:.2f}" for value in times], fontsize=8)
        axis.set_yticks(list(places), names)
        axis.set_xlabel("milliseconds for a sentence")
        title = f"{tuning.folder.name}: {tuning.sentences} sentences, beam {tuning.beam_size}, this machine"
        axis.set_title(title, fontsize=10)
        axis.legend(fontsize=8, loc="lower right")
        axis.spines[["top", "right"]].set_visible(False)
