"""What is kept between runs, and when it is stale: it must come from the same model, text and code."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from benchmarks import record
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
