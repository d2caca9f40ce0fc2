"""The native tests on 64-bit Arm, in emulation: every kernel of the NEON tables next to the scalar one, bit for bit.

`make native-arm` builds and runs them on three emulated processors; it needs qemu-user and the cross compiler
g++-aarch64-linux-gnu.
"""

from __future__ import annotations

import re
import shutil
import subprocess

from bench.harness import record
from sharpbeam.errors import SharpbeamError

NEEDED = ("qemu-aarch64", "aarch64-linux-gnu-g++")


def main() -> None:
    """Run, print and record."""
    if missing := [program for program in NEEDED if shutil.which(program) is None]:
        raise SharpbeamError(f"{' and '.join(missing)} are not installed; install qemu-user and g++-aarch64-linux-gnu.")
    run = subprocess.run(["make", "native-arm"], cwd=record.ROOT, capture_output=True, text=True, check=False)
    found = re.findall(r"(\d+) tests, (\d+) checks, (\d+) failed", run.stdout)
    figures = {
        "status": run.returncode,
        "processors": len(found),
        "tests": min((int(tests) for tests, _, _ in found), default=0),
        "checks": sum(int(checks) for _, checks, _ in found),
        "failed": sum(int(failed) for _, _, failed in found),
    }
    print(record.write("service", figures, threads=1, options={"what": "arm"}))
    if run.returncode:
        print(run.stdout[-3000:], run.stderr[-3000:])
