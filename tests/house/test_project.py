"""Promises of the project itself: what the package needs."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from sharpbeam import Translator


def test_translating_needs_no_extra() -> None:
    """Everything on the way from text to text can be imported where the extras are not installed."""
    code = (
        "import sys\n"
        "for name in ('torch', 'sacrebleu', 'tomli', 'tomllib'): sys.modules[name] = None\n"
        "import sharpbeam, sharpbeam.cli.main, sharpbeam.api.translator, sharpbeam.models.native\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("name", "source", "target", "least"), [("de-en", "german", "english", 48), ("en-pt", "english", "portuguese", 56)]
)
def test_the_bundled_models_translate_the_demo(name: str, source: str, target: str, least: float) -> None:
    metrics = pytest.importorskip("sacrebleu.metrics", reason="sacrebleu is not installed")
    demo = Path(__file__).parents[2] / "demo"
    references = (demo / f"{target}.txt").read_text("utf-8").splitlines()
    texts = (demo / f"{source}.txt").read_text("utf-8").splitlines()[: len(references)]
    answers = [answer.text for answer in Translator(name, threads=1).translate(texts)]
    assert metrics.BLEU().corpus_score(answers, [references]).score > least  # 50.0 and 61.1


def test_importing_takes_less_than_150_ms() -> None:
    """The least of some runs, in time of the processor: the machine may be busy."""
    code = "import time\nbegan = time.process_time()\nimport sharpbeam\nprint(time.process_time() - began)"
    command, least = [sys.executable, "-c", code], 1e9
    for _ in range(10):
        result = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        least = min(least, float(result.stdout))
        if least < 0.15:
            return
    raise AssertionError(f"import sharpbeam takes {least} s")


def test_a_source_package_has_no_model_whose_text_has_another_license(tmp_path: Path, monkeypatch) -> None:
    build = pytest.importorskip("scikit_build_core.build", reason="scikit-build-core is not installed")
    monkeypatch.chdir(Path(__file__).parents[2])
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as package:
        models = {name.split("/")[2] for name in package.getnames() if name.split("/")[1] == "models"}
    assert models == {"README.md", "de-en", "en-pt"}
