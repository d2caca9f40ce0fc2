"""Records of a benchmark are found again as long as the code is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.harness import record


def test_a_line_is_found_by_its_options_while_the_code_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"commit": "a", "dirty": False}
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(record, "commit", lambda: dict(now))
    monkeypatch.setattr(record, "_same_code", lambda commit: commit == now["commit"])
    assert record.find("some", {"x": 1}) is None
    record.write("some", {"figure": 3}, threads=1, options={"x": 1})
    line = record.find("some", {"x": 1})
    assert line is not None
    assert line["figure"] == 3
    assert record.find("some", {"x": 2}) is None
    now["dirty"] = True
    assert record.find("some", {"x": 1}) is None
    now.update(commit="b", dirty=False)
    assert record.find("some", {"x": 1}) is None
