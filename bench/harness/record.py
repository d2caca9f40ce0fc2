"""One JSON line for each measurement: what was measured, on which commit and machine, with which options."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from sharpbeam import _core

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "bench" / "results"
# Facts that decide on a figure; the options of its line say what is measured.
MAKES_FIGURES = ("src", "csrc", "models", "bench", ":!bench/results", "CMakeLists.txt")


def commit() -> dict[str, Any]:
    """The commit at work (BENCH_COMMIT in a copy without history), and whether tracked files but results differ."""
    here = _git("rev-parse", "HEAD")
    if here == "unknown":
        return {"commit": os.environ.get("BENCH_COMMIT", here), "dirty": "BENCH_COMMIT" not in os.environ}
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results")
    return {"commit": here, "dirty": bool(changed)}


def cpu() -> str:
    """The processor's name with its family and model, since one name can stand for several; never the host's name."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor() or platform.machine()
    first = info.read_text(encoding="utf-8").split("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    facts = {key.strip(): value.strip() for key, _, value in pairs}
    name = facts.get("model name", platform.machine())
    numbers = [f"{key.removeprefix('cpu ')} {facts[key]}" for key in ("cpu family", "model") if key in facts]
    return ", ".join([name, *numbers])


def machine() -> dict[str, Any]:
    """Facts that a figure depends on: processor, number of cores, and the kernel table in use."""
    return {"cpu": cpu(), "cores": os.cpu_count(), "isa": _core.table_name(), "python": platform.python_version()}


def write(benchmark: str, figures: dict[str, Any], *, threads: int, options: dict[str, Any]) -> dict[str, Any]:
    """Append one line to results/BENCHMARK.jsonl and return it."""
    time = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    line = {"benchmark": benchmark, "time": time, **commit(), **machine(), "threads": threads, "options": options}
    line["load"] = round(os.getloadavg()[0], 1)  # processes that wanted to run, this one too; above the cores: busy
    line |= figures
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / f"{benchmark}.jsonl").open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")
    return line


def read(benchmark: str) -> list[dict[str, Any]]:
    """The lines of results/BENCHMARK.jsonl, oldest first; none where nothing has been measured."""
    path = RESULTS / f"{benchmark}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def find(benchmark: str, options: dict[str, Any]) -> dict[str, Any] | None:
    """The last line of results/BENCHMARK.jsonl with these options that the code of this commit gave, or None.

    With it a long measurement that was interrupted continues where it was, also after a commit of words or results.
    Figures of a changed tree are not found.
    """
    if commit()["dirty"]:
        return None
    same = [line for line in read(benchmark) if line["options"] == options and not line["dirty"]]
    return next((line for line in reversed(same) if _same_code(line["commit"])), None)


@cache
def _same_code(commit: str) -> bool:
    """Whether a commit differs from the one at work in nothing that makes a figure."""
    run = ["git", "diff", "--quiet", commit, "HEAD", "--", *MAKES_FIGURES]
    return subprocess.run(run, cwd=ROOT, capture_output=True, check=False).returncode == 0


def _git(*arguments: str) -> str:
    result = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else "unknown"
