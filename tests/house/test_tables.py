"""The tables of figures: pages are as bench/results says, and lines of lost code count for nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

CI = Path(__file__).parents[2] / ".ci"
PAPERS = {"L2S": 14, "CVP": 5, "CUBE": 5, "SHARP": 8, "STREAM": 6}


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(CI))
    result_lines, module = import_module("result_lines"), import_module("tables")
    monkeypatch.setattr(result_lines, "RESULTS", tmp_path)
    monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(result_lines, "history", lambda: frozenset({"aaaaaaaaaa"}))
    result_lines.lines.cache_clear()
    yield module
    result_lines.lines.cache_clear()


def line(commit: str, dirty: bool = False, **options: object) -> str:
    figures = {"CTranslate2": {"ms_per_sentence": 9.0}, "ours scan": {"ms_per_sentence": 3.0}}
    facts = {"commit": commit, "dirty": dirty, "cpu": "a CPU", "isa": "avx2", "threads": 1}
    return json.dumps({**facts, "options": {"name": "m", "batch": 1, "beam": 5, **options}, "contenders": figures})


def test_the_pages_are_as_the_results_say() -> None:
    result = subprocess.run([sys.executable, CI / "tables.py", "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_each_row_of_the_papers_is_there_without_a_line_too(tables: ModuleType) -> None:
    for paper, count in PAPERS.items():
        assert tables.papers(paper).count("not measured") == count


def test_lines_of_lost_code_count_for_nothing_and_can_be_dropped(tables: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "peers.jsonl"
    kept = line("aaaaaaaaaa") + "\n"
    path.write_text(kept + line("bbbbbbbbbb", batch=32) + "\n" + line("aaaaaaaaaa", dirty=True, batch=64) + "\n")
    table = tables.peers("m:avx2")
    assert "| **Sharpbeam**, `scan` | 3.0 |\n" in table and "Commit aaaaaaa;" in table
    assert tables.peers("m") == "to be measured again\n"  # nothing of AVX-512
    assert tables.unsound(drop=True) == 2
    assert path.read_text() == kept
