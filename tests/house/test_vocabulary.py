"""The vocabulary check: it finds the words of the glossary's right-hand column, and accepts the standard ones."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def vocabulary() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vocabulary", ROOT / ".ci/vocabulary.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["vocabulary"] = module
    spec.loader.exec_module(module)
    return module


def test_a_planted_door_is_found(tmp_path):
    planted = tmp_path / "planted.py"
    planted.write_text('"""The door of the model."""\n')
    command = [sys.executable, str(ROOT / ".ci/vocabulary.py"), str(planted)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert f"{planted}:1: 'door': write interface" in result.stdout


@pytest.mark.parametrize(
    "line",
    [
        "the rows that take a turn",
        "class DoubtTest:",
        "def is_doubtful(row):",
        "self._room = 4",
        "the tokens behind the prefix",
        "what it gives back",
        "the search goes on",
        "rows are sent back to the scan",
        "matrices are kept as bytes",
        "look_across(query)",
        "--projection scan",
        '"""What a model is."""',
        "norms in front of every block",
    ],
)
def test_words_outside_the_glossary_are_found(vocabulary, line):
    assert vocabulary.check("src/sharpbeam/x.py", line)


@pytest.mark.parametrize(
    "line",
    [
        "auto moved = std::move(value);",
        "each member in turn",
        "turn the fallback test off",
        "it returns the mushroom outdoors",
        "Fast Vocabulary Projection via Clustering",
        "the key projection of each head",
        "keys are read as bytes",
        "it asks what a model is",
        'KEY = "doubt"  # vocabulary: a key of files of format 1',
    ],
)
def test_standard_words_are_let_be(vocabulary, line):
    assert vocabulary.check("src/sharpbeam/x.py", line) == []
