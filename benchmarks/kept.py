"""What is kept between runs, and when it is stale: it must come from the same model, text and code."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from benchmarks import record
from quickbeam.text.lines import file_digest

MODEL = ("config.json", "model.safetensors", "source.spm", "target.spm", "vocab.json")
CODE = ("src/quickbeam/train/screen", "src/quickbeam/models", "src/quickbeam/search", "src/quickbeam/projections")
MADE_BY = ("benchmarks/vectors.py", "benchmarks/screens.py", "benchmarks/prepare.py", "benchmarks/screened_search.py")


@cache
def stamp(folder: Path, *text: Path) -> str:
    """Twelve digits of a digest over a model folder, files of text, and the code that collects and fits."""
    files = [folder / name for name in MODEL] + list(text) + [record.ROOT / name for name in MADE_BY]
    files += [path for room in CODE for path in sorted((record.ROOT / room).rglob("*.py"))]
    digests = "".join(file_digest(path) for path in files if path.is_file())
    return hashlib.sha256(digests.encode()).hexdigest()[:12]
