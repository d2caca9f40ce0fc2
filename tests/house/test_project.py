"""Promises of the project itself: what the package needs, what make and the demo offer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_translating_needs_no_extra():
    """Everything on the way from text to text can be imported where the extras are not installed."""
    code = (
        "import sys\n"
        "for name in ('torch', 'sacrebleu', 'matplotlib', 'tomli', 'tomllib'): sys.modules[name] = None\n"
        "import sharpbeam, sharpbeam.cli.main, sharpbeam.api.translator, sharpbeam.models.native\n"
    )
    result = run(sys.executable, "-c", code)
    assert result.returncode == 0, result.stderr


def test_ci_runs_the_checks_and_then_the_tests():
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert {"house", "lint", "types", "imports", "native"} <= set(re.search(r"for part in (.*); do", text)[1].split())
    assert text.rstrip().splitlines()[-1].endswith("make --no-print-directory test")


def test_lower_bounds_leave_out_releases_with_known_holes():
    """CVE-2025-62727 of starlette, CVE-2024-53981 of python-multipart, CVE-2025-32434 of PyTorch."""
    text = (ROOT / "pyproject.toml").read_text()
    for package, sound in (("starlette", (0, 49, 1)), ("python-multipart", (0, 0, 18)), ("torch", (2, 6))):
        bounds = re.findall(rf'"{package}>=([\d.]+)', text)
        assert bounds and all(tuple(map(int, bound.split("."))) >= sound for bound in bounds), package
