"""The rules of the house that a machine can check: rooms, sizes, dependencies, what travels with the package."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
NATIVE = sorted(path for ending in ("*.cpp", "*.h") for path in (ROOT / "csrc").rglob(ending))
MOST_LINES, MOST_FUNCTION_LINES = 400, 60
MOST_MODEL_BYTES = 25 * 2**20


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False
    )


def test_imports_go_down_only():
    pytest.importorskip("importlinter", reason="import-linter is not installed")
    result = run(sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", PYTHONPATH="src")
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", SOURCES + NATIVE, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_are_short(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_functions_are_short_and_nothing_is_unpickled(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert node.end_lineno - node.lineno < MOST_FUNCTION_LINES, f"{path.name}: {node.name} is too long"
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = {alias.name for alias in node.names} | {getattr(node, "module", None)}
            assert not names & {"pickle", "cloudpickle", "dill", "shelve", "marshal"}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "load":
            assert getattr(node.func.value, "id", None) != "torch", f"{path.name} calls torch.load, which unpickles"


def test_translating_needs_no_extra():
    """Everything on the way from text to text is importable where the extras are not installed."""
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


def test_ci_runs_the_tests():
    script = ROOT / ".ci/run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()


def test_the_demo_is_a_hundred_sentences_or_more():
    lines = (ROOT / "demo/german.txt").read_text(encoding="utf-8").splitlines()
    assert len(lines) >= 100
    assert len(set(lines)) == len(lines)
    assert all(line.strip() for line in lines)


def test_the_changelog_knows_the_version():
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M)[1]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "models/README.md"])
def test_paths_named_in_the_documents_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:src|csrc|tests|bench|models|recipes|demo|examples)/[\w./-]*)`", text)
    paths += [link for link in re.findall(r"\]\(([\w./-]+)\)", text) if not link.startswith("http")]
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing


def test_bundled_models_fit_into_the_wheel_and_have_cards():
    folders = [config.parent for config in (ROOT / "models").glob("*/config.json")]
    for folder in folders:
        assert sum(path.stat().st_size for path in folder.rglob("*")) <= MOST_MODEL_BYTES
        assert (folder / "README.md").read_text(encoding="utf-8").startswith("# ")
