"""Files on the disk of a server: how much space they take, whose leave first, and what a killed server leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra sharpbeam[server]")
if sys.platform == "win32":
    pytest.skip("folders are not locked on Windows", allow_module_level=True)

from sharpbeam.server.refusals import Refused
from sharpbeam.server.store import LEAST, LIFETIME, PREFIX, SPACE, Files, temporary_folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all temporary folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def kept(files: Files, names: list[str]) -> int:
    count = 0
    for name in names:
        try:
            files.get(name)
        except Refused:
            continue
        count += 1
    return count


def test_files_of_a_client_that_takes_most_leave_first(place: Path) -> None:
    files = Files(LEAST, place)
    mine = files.write(b"mine", ".txt", "me")
    many = [files.write(b"x", ".txt", "greedy") for _ in range(5 * SPACE)]
    assert files.get(mine).value.read_bytes() == b"mine"
    assert kept(files, many) == SPACE - 1 and kept(files, many[-SPACE + 1 :]) == SPACE - 1
    large = [files.write(bytes(LEAST * 4), ".txt", "large") for _ in range(3)]
    assert kept(files, [mine, *many, *large]) < SPACE
    assert sum(path.stat().st_size for path in place.rglob("*.txt")) <= SPACE * LEAST


def test_files_are_forgotten_after_a_while(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, now = Files(LEAST, place), time.time()
    old = files.write(b"old", ".txt", "me")
    assert files.get(old).value.read_bytes() == b"old"
    monkeypatch.setattr(time, "time", lambda: now + LIFETIME + 1)
    with pytest.raises(Refused):
        files.get(old)
    files.write(b"new", ".txt", "me")
    assert [path.read_bytes() for path in place.rglob("*.txt")] == [b"new"]


def test_folders_of_killed_servers_are_deleted_and_no_others(place: Path) -> None:
    program = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from sharpbeam.server.store import temporary_folder\n"
        "with temporary_folder() as folder: (folder / 'secret').write_text('x'); print(folder, flush=True); input()"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    lives, killed = (
        subprocess.Popen(
            [sys.executable, "-c", program, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=environment,
        )
        for _ in range(2)
    )  # fmt: skip
    assert lives.stdout is not None and killed.stdout is not None
    living, left = Path(lives.stdout.readline().strip()), Path(killed.stdout.readline().strip())
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    other = place / "sharpbeam-other"
    other.mkdir()
    (place / f"{PREFIX}link").symlink_to(other)
    for folder in (living, left, other):
        os.utime(folder, (0, time.time() - 3600))
    with temporary_folder() as own:
        assert {path.name for path in place.iterdir()} == {living.name, other.name, own.name, f"{PREFIX}link"}
        assert (living / "secret").exists()
    lives.communicate("\n")
    assert lives.returncode == 0 and not living.exists()
