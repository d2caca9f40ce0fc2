"""A model with a shortlist: its own, or one that `quickbeam fit-shortlist` fits into a copy in build/bench."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from benchmarks import record
from benchmarks.kept import stamp
from benchmarks.testset import test_file
from quickbeam.cli.main import main as quickbeam
from quickbeam.engine.load import find_model
from quickbeam.models.shortlist_folder import SHORTLIST

KEPT = record.ROOT / "build" / "bench" / "listed"
TRAIN = "tatoeba/eng-deu.train.tsv.gz"
COLUMNS = ("--source-column", "1", "--target-column", "0")  # German to English


def listed(model: str, data: str) -> Path:
    """The folder of a German-English model with a shortlist; `model` is a folder, or the name of one of the project."""
    own = record.ROOT / "models" / model
    folder = own if own.is_dir() else find_model(model)
    if (folder / SHORTLIST.facts).is_file():
        return folder
    pairs = test_file(data, TRAIN)
    copy = KEPT / f"{folder.name}-{stamp(folder, pairs)}"
    if (copy / SHORTLIST.facts).is_file():
        return copy
    KEPT.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(copy, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=KEPT) as work:
        fitted = Path(work) / folder.name
        shutil.copytree(folder, fitted)
        status = quickbeam(["fit-shortlist", str(fitted), "--pairs", str(pairs), *COLUMNS])
        if status:
            raise RuntimeError(f"fit-shortlist failed with status {status}")
        os.replace(fitted, copy)
    return copy
