"""Windows: what the package does there with modules, files and signals, imitated in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from support.command import environment

LINES = "Guten Morgen.\nIch habe Hunger.\n"
BEGIN = "import sys; from support.windows import imitate; imitate(); from sharpbeam.cli.main import main\n"


def run(program: str, text: str = LINES, status: int = 0) -> str:
    """The output of a program that begins on our Windows."""
    result = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        input=text,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == status, result.stderr
    return result.stdout


def test_a_pipe_and_a_file_are_translated(tmp_path: Path) -> None:
    printed = run("main(['translate', 'de-en', '--beam-size', '1'])")
    assert printed.count("\n") == 2
    output = tmp_path / "english.txt"
    output.write_text("old")
    for _ in range(2):  # a new one, and one that is finished
        run(f"main(['translate', 'de-en', '--beam-size', '1', '--output', {str(output)!r}, '--restart'])")
        assert output.read_text() == printed
        assert [path.name for path in tmp_path.iterdir()] == ["english.txt"]


def test_an_interrupted_job_is_resumed(tmp_path: Path) -> None:
    german, output = tmp_path / "german.txt", tmp_path / "english.txt"
    german.write_text("Guten Morgen.\n" * 6)
    arguments = ["translate", "de-en", str(german), "--beam-size", "1", "--output", str(output)]
    fail = """
import sharpbeam.jobs.chunks as chunks; chunks.CHUNK = 2
from sharpbeam.jobs.output import OutputFile
write, times = OutputFile.commit, []
def commit(self):
    times.append(1)
    if len(times) == 3: raise KeyboardInterrupt
    write(self)
OutputFile.commit = commit
"""
    run(f"{fail}sys.exit(main({arguments!r}))", status=130)
    assert Path(f"{output}.part").read_text().count("\n") == 4
    run(f"sys.exit(main({[*arguments, '--resume']!r}))")
    assert output.read_text().count("\n") == 6
    assert sorted(path.name for path in tmp_path.iterdir()) == ["english.txt", "german.txt"]


def test_a_folder_and_a_file_are_replaced(tmp_path: Path) -> None:
    run(f"""
from pathlib import Path
from sharpbeam.storage.atomic import replacing_folder, replacing_files, write_text
home = Path({str(tmp_path)!r})
for text in ("one", "two"):
    write_text(home / "file", text)
    with replacing_folder(home / "model") as folder:
        (folder / "card").write_text(text)
    with replacing_files(home / "model", "facts") as folder:
        (folder / "facts").write_text(text)
""")
    assert (tmp_path / "file").read_text() == (tmp_path / "model/card").read_text() == "two"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["card", "facts", "file", "model"]


def test_a_server_answers() -> None:
    pytest.importorskip("fastapi")
    run("""
import fastapi.testclient, uvicorn, prometheus_client  # before the imitation ends imports of POSIX modules
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.server import ServerOptions
from sharpbeam.server.app import create_app
from sharpbeam.server.run import listen
listen("127.0.0.1", 0).close()
with fastapi.testclient.TestClient(create_app(["de-en"], ServerOptions(), MachineOptions())) as client:
    answer = client.post("/translate", json={"q": "Guten Morgen.", "source": "de", "target": "en"})
    assert answer.json()["translatedText"], answer.text
""")
