"""Pictures of reports, drawn by Matplotlib, an extra."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sharpbeam.errors import needs_extra
from sharpbeam.storage.atomic import replacing_file


@contextmanager
def drawing(path: Path, what: str, size: tuple[float, float], columns: int = 1, dpi: int = 120) -> Iterator[Any]:
    """The axis to draw `what` on, or `columns` axes; at the end of the block the picture is at `path`, as PNG.

    `size` is that of the figure in inches. The file is written under a temporary name and renamed. Raises
    SharpbeamError without Matplotlib.
    """
    with needs_extra(f"the picture of {what}", "train"):
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    figure, axes = pyplot.subplots(1, columns, figsize=size)
    try:
        yield axes
        figure.tight_layout()
        with replacing_file(path) as temporary:
            figure.savefig(temporary, format="png", dpi=dpi)
    finally:
        pyplot.close(figure)
