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


def test_help_of_every_make_target_is_true():
    text = (ROOT / "Makefile").read_text()
    targets = set(re.search(r"^\.PHONY: (.*)$", text, re.M)[1].split())
    named = set(re.findall(r'@echo "make (\w+)', text))
    assert named <= targets
    for target in targets:
        assert re.search(rf"^{target}:", text, re.M), f"target {target} has no rule"


def test_ci_runs_the_checks_and_then_the_tests():
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    text = script.read_text()
    assert {"house", "lint", "types", "imports", "native"} <= set(re.search(r"for part in (.*); do", text)[1].split())
    assert text.rstrip().splitlines()[-1].endswith("make --no-print-directory test")


def test_the_demo_is_a_hundred_sentences_or_more():
    lines = (ROOT / "demo/german.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 100
    assert len(set(lines)) == len(lines)
    assert all(line.strip() for line in lines)
