"""Install the package in place, with the extras named: `python .ci/install.py train,dev`.

Edits of Python files count at once, edits of C++ files after the next call. Compiled files are kept in build/, so only
the first call takes minutes; it shows how far the compiler is.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
STEP = re.compile(r"^\s*\[(\d+)/(\d+)\] ")


def main() -> int:
    """Run pip; print its output only if it fails."""
    extras = f"[{sys.argv[1]}]" if len(sys.argv) > 1 else ""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--no-build-isolation", "-v"]
    command += ["-c", "constraints.txt", "--editable", f".{extras}"]
    tools = str(Path(sys.executable).parent)
    environment = os.environ | {"PATH": tools + os.pathsep + os.environ.get("PATH", "")}
    output, shown = [], 0
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            output.append(line)
            step = STEP.match(line)
            if step and int(step[1]) * 10 // int(step[2]) > shown * 10 // 100:
                shown = int(step[1]) * 100 // int(step[2])
                print(f"  compiled {step[1]} of {step[2]} files", flush=True)
            elif line.lstrip().startswith("Collecting ") and extras:
                print(f"  {line.strip()}", flush=True)
    if pip.returncode:
        sys.stdout.writelines(output)
        print("\nThe installation failed; what pip and the compiler said is above.", file=sys.stderr)
    return pip.returncode


if __name__ == "__main__":
    sys.exit(main())
