"""Running the command line: in this process for what it says, in one of its own for what the system does to it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.command import COMMAND, TIMEOUT, Result, Run, environment, without_flags

from sharpbeam.cli.main import main


@pytest.fixture
def run() -> Run:
    """Run `sharpbeam` with the arguments in a process of its own, `stdin` given as bytes."""

    def call(*arguments: Any, stdin: bytes = b"", **options: Any) -> Result:
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        process = subprocess.run(
            [*COMMAND, *map(str, arguments)],
            input=stdin,
            env=environment(),
            timeout=TIMEOUT,
            check=False,
            **options,
        )
        return Result(process.returncode, process.stdout or b"", without_flags((process.stderr or b"").decode()))

    return call


@pytest.fixture
def call(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run `sharpbeam` with the arguments in this process; quick, without standard input."""

    def here(*arguments: Any) -> Result:
        capfdbinary.readouterr()
        status = main([str(argument) for argument in arguments])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        return Result(status, out, without_flags(err.decode()))

    return here


@pytest.fixture
def text(tmp_path: Path, sentences: list[str]) -> Path:
    """A file of 60 sentences with some empty lines between."""
    lines = [("" if i % 13 == 5 else sentence) for i, sentence in enumerate(sentences[:60])]
    path = tmp_path / "text"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
