"""What is kept between runs, and when it is stale: it must come from the same model, text and code."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from benchmarks import record
from quickbeam.cli.main import main as quickbeam
from quickbeam.text.lines import file_digest

MODEL = ("config.json", "model.safetensors", "source.spm", "target.spm", "vocab.json")
COLLECTING = ("src/quickbeam/train/screen/collect.py", "benchmarks/vectors.py")  # what hidden vectors are made by
FITTING = (
    "src/quickbeam/train/screen",
    "src/quickbeam/options/screen.py",
    "benchmarks/vectors.py",
    "benchmarks/screens.py",
    "benchmarks/prepare.py",
)


@cache
def stamp(folder: Path, *text: Path, code: tuple[str, ...] = FITTING) -> str:
    """Twelve digits of a digest over a model folder, files of text, and the `code`, files or folders, that makes it."""
    files = [folder / name for name in MODEL] + list(text)
    for room in (record.ROOT / name for name in code):
        files += [room] if room.is_file() else sorted(room.rglob("*.py"))
    digests = "".join(file_digest(path) for path in files if path.is_file())
    return hashlib.sha256(digests.encode()).hexdigest()[:12]


def fitted_copy(folder: Path, copy: Path, made: str, command: Callable[[Path, Path], list[str]]) -> Path:
    """`copy`: the model in `folder` with what a command of quickbeam makes in it, the file `made` among others.

    Made where it is not there yet, beside and renamed. `command` gets the model to fit and a folder for files of its
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
        if status := quickbeam(arguments):
            raise RuntimeError(f"{arguments[0]} failed with status {status}")
        os.replace(model, copy)
    return copy
