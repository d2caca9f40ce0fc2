"""Notes in the cache: believed while a file is as it was; pipes and notes of others are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sharpbeam.storage.cache import file_state, read_note, write_note


def test_a_note_holds_while_its_file_is_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARPBEAM_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "file"
    file.write_text("one")
    write_note("kind", file, file_state(file), {"sound": True})
    assert read_note("kind", file) == {"sound": True} and read_note("other", file) is None
    (note,) = (tmp_path / "cache/kind").iterdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(note).st_uid + 1)
    assert read_note("kind", file) is None  # it is of another user
    monkeypatch.undo()
    monkeypatch.setenv("SHARPBEAM_CACHE", str(tmp_path / "cache"))
    file.write_text("two, longer")
    assert read_note("kind", file) is None


def test_a_pipe_is_no_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHARPBEAM_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "file"
    file.write_text("one")
    write_note("kind", file, file_state(file), {})
    (note,) = (tmp_path / "cache/kind").iterdir()
    note.unlink()
    os.mkfifo(note)
    assert read_note("kind", file) is None
