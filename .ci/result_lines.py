"""The lines of bench/results that can be taken again: their commit is in the history, and their tree had no changes."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench/results"
Line = dict[str, Any]


@cache
def history() -> frozenset[str] | None:
    """The commits that can be gone back to; None in a shallow clone and outside of a repository."""

    def git(*arguments: str) -> list[str]:
        run = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return run.stdout.split() if run.returncode == 0 else []

    if git("rev-parse", "--is-shallow-repository") != ["false"]:
        return None
    return frozenset(git("rev-list", "--all"))


def sound(line: Line) -> bool:
    """Whether the code that made a line can be had."""
    known = history()
    return not line["dirty"] and (known is None or line["commit"] in known)


@cache
def lines(benchmark: str) -> tuple[Line, ...]:
    """The sound lines of a benchmark, oldest first."""
    path = RESULTS / f"{benchmark}.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return tuple(filter(sound, map(json.loads, text.splitlines())))


def select(benchmark: str, **options: Any) -> list[Line]:
    """The sound lines with these options, or with these names at their top."""
    return [line for line in lines(benchmark) if options.items() <= {**line, **line["options"]}.items()]


def commits(used: Iterable[Line]) -> str:
    """The commits of lines."""
    return ", ".join(sorted({str(line["commit"])[:7] for line in used}))


def newest(benchmark: str, keys: tuple[str, ...], **options: Any) -> list[Line]:
    """The newest line for each value of `keys`, in their order."""
    last = {tuple(line["options"][key] for key in keys): line for line in select(benchmark, **options)}
    return [last[values] for values in sorted(last)]
