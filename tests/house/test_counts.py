"""The counts of .ci/counts.py on small trees."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("counts", Path(__file__).parents[2] / ".ci/counts.py")
counts = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(counts)


@pytest.fixture
def src(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SRC", "CORE"):
        monkeypatch.setattr(counts, name, tmp_path)
    return tmp_path


def test_circles_are_those_of_imports_at_load(src: Path) -> None:
    (src / "one.py").write_text("import two\n")
    (src / "two.py").write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import one\n")
    assert counts.circles() == 0
    (src / "two.py").write_text("from one import name\n")
    assert counts.circles() == 1


def test_a_class_name_counts_once_however_often_it_is_defined(src: Path) -> None:
    for file in ("one.py", "two.py", "three.py"):
        (src / file).write_text("class Work: ...\ndef run():\n    class Part: ...\n")
    assert counts.duplicate_classes() == 2
    (src / "core.cpp").write_text("int one;\nint two;\n")
    assert counts.source_lines() == 9 + 2


def test_strict_fails_over_a_limit_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(counts, "LIMITS", (("nouns", lambda: 3, 2),))
    assert counts.main([]) == 0 and counts.main(["--strict"]) == 1
    assert "over" in capsys.readouterr().out
    monkeypatch.setattr(counts, "LIMITS", (("nouns", lambda: 2, 2),))
    assert counts.main(["--strict"]) == 0
