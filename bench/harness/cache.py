"""Files kept between runs, and when they are stale: each must come from the same model, text and code."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from bench.harness import record
from sharpbeam.cli.main import main as sharpbeam
from sharpbeam.storage.model_folder import WEIGHTS, read_facts
from sharpbeam.text.lines import file_digest

HOME = record.ROOT / "build" / "bench"
VOCABULARIES = ("source.spm", "target.spm", "vocab.json", "source.pieces.json", "target.pieces.json")
MODEL = ("config.json", WEIGHTS, *VOCABULARIES)
COLLECTING = ("src/sharpbeam/fit/collect.py", "bench/harness/vectors.py")  # what hidden vectors are made by
FITTING = (
    "src/sharpbeam/fit/collect.py",
    "src/sharpbeam/fit/screen",
    "src/sharpbeam/options/fit.py",
    "bench/harness/vectors.py",
    "bench/papers/l2s/screens.py",
    "bench/harness/prepare.py",
)


_STAMP = "-[0-9a-f]{12}"


@cache
def stamp(folder: Path, *more: Path, code: tuple[str, ...] = FITTING) -> str:
    """Twelve digits of a digest over a model folder, more files, and the `code`, files or folders, that makes it."""
    files = [folder / name for name in MODEL] + list(more)
    for home in (record.ROOT / name for name in code):
        assert home.exists(), f"{home} has moved: changes of it would not be seen"
        files += [home] if home.is_file() else sorted(home.rglob("*.py"))
    digests = "".join(_digest(path) for path in files if path.is_file())
    return hashlib.sha256(digests.encode()).hexdigest()[:12]


def _digest(path: Path) -> str:
    """SHA-256 of a file; of weights that which their config.json says, for they may be gigabytes."""
    weights_digest = read_facts(path.parent).digest if path.name == WEIGHTS else None
    return weights_digest or file_digest(path)


def model_name(folder: Path) -> str:
    """Names of copies of a model: as its folder, or its training where that is `best`; a copy as its model."""
    folder = folder.resolve()
    name = folder.parent.name if folder.name == "best" else folder.name
    return re.sub(f"({_STAMP})+(-quick)?$", "", name)


def place(folder: str, name: str, made_of: str, ending: str = "") -> Path:
    """build/bench/ROOM/NAME-STAMP for what is kept under a name, `made_of` being its stamp.

    What has the same name and ending and another stamp is stale, and removed.
    """
    path = HOME / folder / f"{name}-{made_of}{ending}"
    others = re.compile(re.escape(name) + _STAMP + re.escape(ending))
    for other in path.parent.iterdir() if path.parent.is_dir() else ():
        if other != path and others.fullmatch(other.name):
            shutil.rmtree(other)
    return path


def fitted_copy(folder: Path, copy: Path, made: str, command: Callable[[Path, Path], list[str]]) -> Path:
    """`copy`: the model in `folder` with what a command of sharpbeam makes in it, the file `made` among others.

    Made where it is not there yet, and renamed. `command` gets the model to fit and a folder for files of its
    own, which is removed at the end; raises RuntimeError where the command fails.
    """
    if (copy / made).is_file():
        return copy
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(copy, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=copy.parent) as work:
        model = Path(work) / folder.name
        shutil.copytree(folder, model)
        arguments = command(model, Path(work))
        if status := sharpbeam(arguments):
            raise RuntimeError(f"{arguments[0]} failed with status {status}")
        os.replace(model, copy)
    return copy
