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

from sharpbeam.server.files import LEAST, LIFETIME, SPACE, Files
from sharpbeam.server.folder import PREFIX, temporary_folder
from sharpbeam.server.refusals import Refused


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of all temporary folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def kept(files: Files, names: list[str]) -> int:
    count = 0
    for name in names:
        try:
            files.path(name)
        except Refused:
            continue
        count += 1
    return count


def test_files_of_a_client_that_takes_most_leave_first(place: Path) -> None:
    files = Files(LEAST, place / "files")
    mine = files.put(b"mine", ".txt", "me")
    many = [files.put(b"x", ".txt", "greedy") for _ in range(5 * SPACE)]
    assert files.path(mine).read_bytes() == b"mine"
    assert kept(files, many) == SPACE - 1 and kept(files, many[-SPACE + 1 :]) == SPACE - 1
    large = [files.put(bytes(LEAST * 4), ".txt", "large") for _ in range(3)]
    assert kept(files, [mine, *many, *large]) < SPACE
    assert sum(path.stat().st_size for path in place.rglob("*.txt")) <= SPACE * LEAST


def test_files_are_forgotten_after_a_while(place: Path) -> None:
    files = Files(LEAST, place / "files")
    old = files.put(b"old", ".txt", "me")
    os.utime(files.path(old), (0, time.time() - LIFETIME - 1))
    with pytest.raises(Refused):
        files.path(old)
    files.put(b"new", ".txt", "me")
    assert len(list(place.rglob("*.txt"))) == 1


def test_folders_of_killed_servers_are_deleted_and_no_others(place: Path) -> None:
    program = (
        "import sys, tempfile; tempfile.tempdir = sys.argv[1]\n"
        "from sharpbeam.server.folder import temporary_folder\n"
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
