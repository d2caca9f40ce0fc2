"""Inputs that are made before anything is timed: hidden vectors and fitted screens, for several models at a time.

Both are kept below build/bench, by the digest of the output layer, so that a second run begins with the timing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bench.harness.cache import stamp
from bench.harness.vectors import KEPT, Layer, collect_layer
from bench.papers.l2s.screens import Fit, best_of, fidelity
from bench.papers.l2s.subjects import Subject
from sharpbeam.errors import ModelError
from sharpbeam.output_layers.screen import Screens
from sharpbeam.storage.artifacts import FolderArtifacts

CLUSTERS, FEW_CLUSTERS = (100, 200), (100,)
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
    digest = stamp(folder, Path(data) / subject.fit, Path(data) / subject.choose)
    path = KEPT / f"{subject.name}-{digest}-screens-{len(layer.fit)}"
    fits = _read(path, layer)
    if not fits:
        numbers = FEW_CLUSTERS if quick else CLUSTERS
        fits = [best_of(layer, method, numbers, _say) for method in ("kmeans", "spherical")]
        fits.append(best_of(layer, "l2s", FEW_CLUSTERS, _say))
        if not quick:
            fits.append(fidelity(layer, CLUSTERS[-1], FIDELITY, _say))
        _keep(path, layer, fits)
    return Prepared(subject, folder, layer, fits)


def prepare_all(models: Sequence[tuple[Subject, Path]], data: str, quick: bool) -> list[Prepared]:
    """All of them, a model on each core."""
    with ProcessPoolExecutor(min(os.cpu_count() or 1, max(1, len(models)))) as pool:
        list(pool.map(_work, [(subject, folder, data, quick) for subject, folder in models]))
    return [prepare(subject, folder, data, quick) for subject, folder in models]


def _work(arguments: tuple[Subject, Path, str, bool]) -> None:
    prepare(*arguments)  # what it makes is kept in files


def _say(text: str) -> None:
    print(text, flush=True)


def _keep(path: Path, layer: Layer, fits: list[Fit]) -> None:
    """The screens, a folder each as in a model folder, written under a temporary name and renamed."""
    with tempfile.TemporaryDirectory(dir=path.parent) as staging:
        work = Path(staging) / "screens"
        for i, fit in enumerate(fits):
            (work / str(i)).mkdir(parents=True)
            artifacts = FolderArtifacts(work / str(i), layer.weight, layer.bias)
            artifacts.save("screen", Screens("all", {"": fit.screen}), {"name": fit.name, "dial": fit.dial})
        os.replace(work, path)


def _read(path: Path, layer: Layer) -> list[Fit]:
    """The screens that `_keep` wrote; none where there are none, or those of another version."""
    if not path.is_dir():
        return []
    folders = sorted(path.iterdir(), key=lambda folder: int(folder.name))
    try:
        kept = [FolderArtifacts(folder, layer.weight, layer.bias) for folder in folders]
        facts = [artifacts.facts("screen") for artifacts in kept]
        screens = [artifacts.read("screen").by_scope[""] for artifacts in kept]
    except ModelError:
        shutil.rmtree(path)
        return []
    return [Fit(f["name"], f["dial"], screen) for f, screen in zip(facts, screens, strict=True)]
