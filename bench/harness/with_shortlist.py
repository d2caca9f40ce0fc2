"""A model with a shortlist: its own, or one that `sharpbeam fit shortlist` fits into a copy in build/bench."""

from __future__ import annotations

from pathlib import Path

from bench.harness import record
from bench.harness.cache import fitted_copy, model_name, place, stamp
from bench.harness.testset import test_file
from sharpbeam.decoding.loading import find_model

LISTING = ("src/sharpbeam/fit/shortlist.py", "bench/harness/with_shortlist.py")
SHORTLIST = "shortlist.json"
TRAIN = "tatoeba/eng-deu.train.tsv.gz"
COLUMNS = ("--source-column", "1", "--target-column", "0")  # German to English


def project_model(model: str) -> Path:
    """The folder of a model, given as such or by the name of one of the project."""
    own = record.ROOT / "models" / model
    return own if own.is_dir() else find_model(model)


def listed(model: str, data: str) -> Path:
    """The folder of a German-English model with a shortlist; `model` as in `project_model`."""
    folder = project_model(model)
    if (folder / SHORTLIST).is_file():
        return folder
    pairs = test_file(data, TRAIN)
    copy = place("listed", model_name(folder), stamp(folder, pairs, code=LISTING))
    command = ["--pairs", str(pairs), *COLUMNS]
    return fitted_copy(folder, copy, SHORTLIST, lambda model, _: ["fit", "shortlist", str(model), *command])
