"""The examples run from any folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sharpbeam._core", reason="the native core is not built")

ROOT = Path(__file__).parents[2]
TREES = "(ROOT (S (NP (DT the) (NN dog)) (VP (VBZ barks)) (. .)))\n(ROOT (S (NP (PRP she)) (VP (VBZ sees)) (. .)))\n"


def run(folder: Path, *command: str, text: str = "") -> str:
    paths = os.pathsep.join(path for path in sys.path if path and Path(path) != ROOT)
    result = subprocess.run(
        [sys.executable, *command], cwd=folder, env=os.environ | {"PYTHONPATH": paths},
        input=text, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_translate(tmp_path):
    output = run(tmp_path, str(ROOT / "examples/translate.py"))
    assert output.startswith("Der Zug fährt in zehn Minuten.\n")
    assert "in ten minutes" in output


def test_rank_puts_the_right_translation_first(tmp_path):
    output = run(tmp_path, str(ROOT / "examples/rank.py"))
    assert output.splitlines()[0].endswith("We missed the last bus.")
    assert output.splitlines()[-1].endswith("The weather is nice.")


def test_stream_answers_every_line(tmp_path):
    texts = ["Guten Morgen.", "Wie spät ist es?", "Guten Abend."]
    output = run(tmp_path, str(ROOT / "examples/stream.py"), text="".join(f"{text}\n" for text in texts))
    answers = dict(line.split("\t") for line in output.splitlines())
    assert sorted(answers) == ["0", "1", "2"]
    assert answers["0"] == "Good morning."


def test_own_model(tmp_path):
    pytest.importorskip("torch")
    assert len(run(tmp_path, str(ROOT / "examples/own_model.py")).splitlines()) == 3


def test_the_parser_trains(tmp_path):
    pytest.importorskip("torch")
    for name in ("train.trees", "dev.trees"):
        (tmp_path / name).write_text(TREES)
    script = str(ROOT / "examples/constituency/train.py")
    output = run(tmp_path, script, "train.trees", "dev.trees", "--output", "parser", "--epochs", "1")
    assert "epoch 1" in output
    assert (tmp_path / "parser").is_dir()
