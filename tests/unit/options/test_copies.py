"""The copies of the options that .ci/keywords.py writes: keyword types, and the struct of the core."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import get_type_hints

import pytest

from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.schema import type_hints
from sharpbeam.options.search import SearchOptions

SPEC = importlib.util.spec_from_file_location("keywords", Path(__file__).parents[3] / ".ci/keywords.py")
written = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(written)


def test_keywords_may_be_left_out_and_early_stopping_may_be_a_bool() -> None:
    hints = get_type_hints(DecodeKeywords)
    assert hints["early_stopping"] == type_hints(SearchOptions)["early_stopping"] | bool
    assert DecodeKeywords.__total__ is False  # type: ignore[attr-defined]


def test_other_copies_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copies = {"KEYWORDS": tmp_path / "keywords.py", "CORE": tmp_path / "option_fields.h"}
    assert written.main(["--check"]) == 0
    for name, path in copies.items():
        monkeypatch.setattr(written, name, path)
    assert written.main([]) == 0 and written.main(["--check"]) == 0
    for path in copies.values():
        text = path.read_text()
        path.write_text(text.replace("beam_size", "width"))
        assert written.main(["--check"]) == 1
        assert f"{path.name} differs from the options dataclasses: make stubs WRITE=1" in capsys.readouterr().out
        path.write_text(text)
