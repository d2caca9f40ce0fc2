"""Promises of the project itself: what the package needs."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest


def test_translating_needs_no_extra() -> None:
    """Everything on the way from text to text can be imported where the extras are not installed."""
    code = (
        "import sys\n"
        "for name in ('torch', 'sacrebleu', 'tomli', 'tomllib'): sys.modules[name] = None\n"
        "import sharpbeam, sharpbeam.cli.main, sharpbeam.api.translator, sharpbeam.models.native\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr


def test_importing_takes_less_than_150_ms() -> None:
    """The least of some runs, as Python measures it; the machine may be busy."""
    command, least = [sys.executable, "-X", "importtime", "-c", "import sharpbeam"], 1e9
    for _ in range(10):
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        least = min(least, float(result.stderr.splitlines()[-1].split("|")[1]) / 1e6)
        if least < 0.15:
            return
    raise AssertionError(f"import sharpbeam takes {least} s")


def test_a_source_package_has_no_model_whose_text_has_another_license(tmp_path: Path, monkeypatch) -> None:
    build = pytest.importorskip("scikit_build_core.build", reason="scikit-build-core is not installed")
    monkeypatch.chdir(Path(__file__).parents[2])
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as package:
        models = {name.split("/")[2] for name in package.getnames() if name.split("/")[1] == "models"}
    assert models == {"README.md", "de-en"}
