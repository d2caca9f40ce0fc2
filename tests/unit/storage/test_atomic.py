"""Files that are replaced as a whole."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sharpbeam.storage.atomic import lock, replacing_file, write_bytes


@pytest.fixture
def masked() -> object:
    """Files are made for their owner and his group."""
    before = os.umask(0o027)
    yield
    os.umask(before)


def test_no_file_of_the_users_is_followed_or_lost(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "a.new").symlink_to("victim")
    (tmp_path / "b.new").write_text("mine too")
    for name in ("a", "b"):
        write_bytes(tmp_path / name, b"done")
        assert (tmp_path / name).read_bytes() == b"done" and not (tmp_path / name).is_symlink()
    assert (tmp_path / "victim").read_text() == "mine" and (tmp_path / "b.new").read_text() == "mine too"
    assert len(list(tmp_path.iterdir())) == 5


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    with pytest.raises(ValueError, match="stop"), replacing_file(tmp_path / "a") as new:
        new.write_text("half")
        raise ValueError("stop")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["old"]


@pytest.mark.parametrize("renamed", [False, True])
def test_permissions_are_those_of_the_old_file_or_of_the_umask(tmp_path: Path, masked: object, renamed: bool) -> None:
    for mode in (0o640, 0o604):
        with replacing_file(tmp_path / "a") as new:
            if renamed:  # as libraries do that write a file of their own and rename it
                (tmp_path / "b").touch(0o600)
                (tmp_path / "b").rename(new)
        assert (tmp_path / "a").stat().st_mode & 0o777 == mode
        (tmp_path / "a").chmod(0o604)


def test_what_a_killed_run_left_is_removed_but_not_what_is_in_use(tmp_path: Path) -> None:
    left, used = (tmp_path / f".a.sharpbeam-{n * 16}" for n in "78")
    left.touch()
    used.touch()
    held = lock(used)
    assert held is not None
    write_bytes(tmp_path / "a", b"")
    os.close(held)
    assert sorted(tmp_path.iterdir()) == [used, tmp_path / "a"]
