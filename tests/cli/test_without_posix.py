"""Translation needs no module that only POSIX systems have."""

from __future__ import annotations

import subprocess
import sys

from support.command import environment

PROGRAM = """
import sys
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None  # importing it raises ImportError
from sharpbeam.cli.main import main
sys.exit(main(["translate", "de-en", "--beam-size", "1"]))
"""


def test_a_system_without_posix_modules_translates():
    command = [sys.executable, "-c", PROGRAM]
    result = subprocess.run(
        command, input="Guten Morgen.\n", env=environment(), capture_output=True, text=True, check=False
    )
    assert (result.returncode, result.stdout.count("\n")) == (0, 1), result.stderr
