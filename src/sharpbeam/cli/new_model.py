"""The last steps for a new model folder: the preview is fitted, and on request what int8 loses measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sharpbeam.cli.fit_progress import shown_progress
from sharpbeam.errors import SharpbeamError


def measure_and_fit(
    folder: Path, texts: Sequence[Path] = (), sources: Sequence[str] = (), *, preview: bool = True
) -> None:
    """Measure int8 on `sources`, if any, and fit the `preview` to `texts` if that takes seconds.

    The model stands if it fails.
    """
    from sharpbeam.fit.preview import fit_preview, worth_fitting
    from sharpbeam.report.precision import check_precision

    try:
        quick = preview and worth_fitting(folder)
        if sources:
            print(f"Number type {check_precision(folder, sources).summary()}.")
        if quick:
            with shown_progress() as progress:
                print(fit_preview(folder, list(texts), progress=progress).summary())
    except SharpbeamError as error:
        print(f"No preview was fitted: {error}")
