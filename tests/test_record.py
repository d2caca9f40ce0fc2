"""What a benchmark has recorded is found again by the same commit only."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import record


def test_a_line_is_found_by_its_options_on_the_same_clean_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = {"commit": "a", "dirty": False}
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    monkeypatch.setattr(record, "commit", lambda: dict(now))
    assert record.find("some", {"x": 1}) is None
    record.write("some", {"figure": 3}, threads=1, options={"x": 1})
    found = record.find("some", {"x": 1})
    assert found is not None
    assert found["figure"] == 3
    assert record.find("some", {"x": 2}) is None
    now["dirty"] = True
    assert record.find("some", {"x": 1}) is None
    now.update(commit="b", dirty=False)
    assert record.find("some", {"x": 1}) is None
