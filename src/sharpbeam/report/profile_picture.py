"""The picture of a profile: one bar for each part of a step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sharpbeam.storage.atomic import replacing_file

if TYPE_CHECKING:
    from sharpbeam.report.profile import Profile

COLORS = {"encoder": "C7", "decoder": "C0", "output layer": "C1"}  # the others are bookkeeping


def draw_profile(profile: Profile, title: str, path: Path) -> None:
    """Draw `profile` to `path`, as PNG, written under a temporary name and renamed."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    parts = profile.parts[::-1]
    figure, axis = pyplot.subplots(figsize=(9, 1 + 0.34 * len(parts)))
    colors = [COLORS.get(part.name.partition(":")[0], "C3") for part in parts]
    bars = axis.barh(
        [part.name for part in parts], [1e6 * part.seconds / profile.steps for part in parts], color=colors
    )
    axis.bar_label(bars, [f" {part.seconds / profile.seconds:.1%}" for part in parts], fontsize=8)
    axis.set_xlabel("microseconds for each step")
    axis.set_title(f"{title}: {profile.steps} steps of {profile.rows / profile.steps:.1f} rows", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    with replacing_file(path) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    pyplot.close(figure)
