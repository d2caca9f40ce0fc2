"""What must be there before anything is timed: hidden vectors and fitted screens, made for several models side by side.

Both are kept below build/bench, by the digest of the output layer, so that a second run begins with the timing.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.screens import Fit, best_of, fidelity
from benchmarks.subjects import Subject
from benchmarks.vectors import KEPT, Layer, collect_layer
from quickbeam.models.screen_folder import output_digest
from quickbeam.types import Doubt, Screen

CLUSTERS, FEW_CLUSTERS = (50, 100, 200), (100,)
FIDELITY = 0.999
QUICK_SHARE = 0.5  # of the vectors


@dataclass(frozen=True)
class Prepared:
    """A layer with the screens that are fitted for it."""

    subject: Subject
    folder: Path
    layer: Layer
    fits: list[Fit]


def prepare(subject: Subject, folder: Path, data: str, quick: bool) -> Prepared:
    """Collect and fit, or read what an earlier run has kept."""
    began = time.perf_counter()
    layer = collect_layer(subject, folder, data, QUICK_SHARE if quick else 1.0)
    _say(f"{subject.name}: {len(layer.fit)} vectors to fit on, {time.perf_counter() - began:.0f} s")
    path = KEPT / f"{subject.name}-{output_digest(layer.weight, layer.bias)[:12]}-screens-{len(layer.fit)}"
    if not path.is_dir():
        numbers = FEW_CLUSTERS if quick else CLUSTERS
        fits = [best_of(layer, method, numbers, _say) for method in ("kmeans", "spherical")]
        fits.append(best_of(layer, "l2s", FEW_CLUSTERS, _say))
        if not quick:
            fits.append(fidelity(layer, CLUSTERS[-1], FIDELITY, _say))
        _keep(path, fits)
    return Prepared(subject, folder, layer, _read(path))


def prepare_all(found: Sequence[tuple[Subject, Path]], data: str, quick: bool) -> list[Prepared]:
    """All of them, a model on each core."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, max(1, len(found)))) as pool:
        list(pool.map(_work, [(subject, folder, data, quick) for subject, folder in found]))
    return [prepare(subject, folder, data, quick) for subject, folder in found]


def _work(arguments: tuple[Subject, Path, str, bool]) -> None:
    prepare(*arguments)  # what it makes is kept in files


def _say(text: str) -> None:
    print(text, flush=True)


def _keep(path: Path, fits: list[Fit]) -> None:
    """The screens as arrays and their names, written beside and renamed."""
    with tempfile.TemporaryDirectory(dir=path.parent) as beside:
        work = Path(beside) / "screens"
        work.mkdir()
        facts = []
        for i, fit in enumerate(fits):
            screen, doubt = fit.screen, fit.screen.doubt
            arrays = {name: getattr(screen, name) for name in ("weight", "bias", "start", "token")}
            if doubt is not None:
                arrays["center"] = doubt.center
            np.savez(work / f"{i}.npz", **arrays)
            test = None if doubt is None else {"k": doubt.k, "slope": doubt.slope, "offset": doubt.offset}
            facts.append({"name": fit.name, "dial": fit.dial, "doubt": test})
        (work / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
        os.replace(work, path)


def _read(path: Path) -> list[Fit]:
    fits = []
    for i, facts in enumerate(json.loads((path / "facts.json").read_text(encoding="utf-8"))):
        with np.load(path / f"{i}.npz", allow_pickle=False) as arrays:
            screen = Screen(arrays["weight"], arrays["bias"], arrays["start"], arrays["token"])
            if facts["doubt"] is not None:
                screen = dataclasses.replace(screen, doubt=Doubt(arrays["center"], **facts["doubt"]))
        fits.append(Fit(facts["name"], facts["dial"], screen))
    return fits
