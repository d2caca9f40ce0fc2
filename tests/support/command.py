"""The command line as a test sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

COMMAND = [sys.executable, "-m", "sharpbeam"]
TIMEOUT = 60  # seconds; nothing here takes more than a few


def without_flags(err: str) -> str:
    """Leave the warning that translations have flags, as those of made-up models do, out of stderr."""
    return "".join(line for line in err.splitlines(True) if "translations have flags" not in line)


@dataclass(frozen=True)
class Result:
    """The outcome of one command line."""

    status: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of the output, which ends in a line feed unless it is empty."""
        assert self.out == b"" or self.out.endswith(b"\n")
        return self.out.decode().split("\n")[:-1]

    def refused(self, status: int, *parts: str) -> None:
        """Assert exit `status`, and one line without a traceback on stderr that holds all `parts`."""
        assert "Traceback" not in self.err, self.err
        assert (self.status, self.out) == (status, b""), (self.status, self.out[:200], self.err)
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("sharpbeam: ")
        for part in parts:
            assert part in self.err, self.err


Run = Callable[..., Result]


def environment() -> dict[str, str]:
    """This process's, with one thread for NumPy."""
    return os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


def start(*arguments: object, chunk: int = 512, most: int = 1 << 30) -> subprocess.Popen[bytes]:
    """`sharpbeam` with the arguments in a process of its own that is left running; `chunk` lines are one step.

    After `most` of them it waits: however late a signal comes, it comes before the end.
    """
    words = [str(argument) for argument in arguments]
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # ignored in the background
    call = (
        "import sys; from sharpbeam.cli import main; from sharpbeam.jobs import chunks; "
        f"import time; chunks.CHUNK = {chunk}; take, steps = chunks._take, iter(range({most})); "
        f"chunks._take = lambda *of: time.sleep({TIMEOUT}) if next(steps, None) is None else take(*of); "
        f"sys.exit(main.main({words!r}))"
    )
    program = f"{heed}; {call}"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([sys.executable, "-c", program], env=environment(), **pipes)
