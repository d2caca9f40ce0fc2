"""The copies of the options: keyword types, which .ci/keywords.py writes, and the struct of the core."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from sharpbeam.options.decode import SamplingOptions, SearchOptions
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.schema import fields_of, type_hints

ROOT = Path(__file__).parents[3]
SPEC = importlib.util.spec_from_file_location("keywords", ROOT / ".ci/keywords.py")
written = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(written)

# Options that Python alone heeds; `sampling` is the kind of a search in the core.
IN_PYTHON = {
    "coverage_penalty",
    "max_length_factor",
    "return_alternatives",
    "return_attention",
    "sampling",
    "search",
}


def test_keyword_types_are_those_of_the_dataclasses(capsys: pytest.CaptureFixture[str]) -> None:
    assert written.main(["--check"]) == 0
    hints = get_type_hints(DecodeKeywords)
    assert hints["early_stopping"] == type_hints(SearchOptions)["early_stopping"] | bool
    assert DecodeKeywords.__total__ is False  # type: ignore[attr-defined]


def test_another_file_of_keyword_types_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(written, "FILE", tmp_path / "keywords.py")
    assert written.main([]) == 0 and written.main(["--check"]) == 0
    (tmp_path / "keywords.py").write_text(written.keywords().replace("beam_size: int", "beam_size: float"))
    assert written.main(["--check"]) == 1
    assert "make stubs WRITE=1" in capsys.readouterr().out


def test_the_core_reads_every_option_of_a_search() -> None:
    header = (ROOT / "csrc/search/options.h").read_text(encoding="utf-8")
    visited = re.findall(r'visit\("(\w+)"', header)
    hints = type_hints(SearchOptions) | type_hints(SamplingOptions)
    assert set(fields_of(SearchOptions)) >= IN_PYTHON
    assert sorted(visited) == sorted({*hints, "eos_id", "vocab_size"} - IN_PYTHON)
    for names in re.findall(r"choice_names\(\w+\) { return std::array{(.*?)};", header):
        assert tuple(re.findall(r'"(\w+)"', names)) in [get_args(hint) for hint in hints.values()], names
