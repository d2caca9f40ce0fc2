"""The cost of training a recipe here: seconds of processor a step, and hours to its end, one thread.

Models that a paper has and this project has not trained miss for want of time; this says of how much. A recipe is run
for a few steps and for a few more, in processes of their own; the difference is steps alone.
"""

from __future__ import annotations

import gzip
import os
import re
import resource
import subprocess
import sys
import tempfile
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.flags import Data
from bench.harness import record
from bench.harness.testset import DATA
from sharpbeam.text.lines import read_lines

RECIPES = ("lm-ptb-large", "sharp-s1", "sharp-s4")  # whose steps take seconds: shorter ones need more of them
STEPS = (1, 3)
VALID = 20  # lines that are validated on, as both runs do at their end


def _seconds(recipe: str, data: str, steps: int) -> float:
    """Seconds of processor of `steps` steps of a recipe, with what comes before and after them."""
    place = record.ROOT / "recipes"
    text = (place / f"{recipe}.toml").read_text(encoding="utf-8").replace('"../models', f'"{record.ROOT}/models')
    for key in ("max_steps", "validate_every", "checkpoint_every", "log_every"):
        text = re.sub(rf"(?m)^{key} = .*$", f"{key} = {steps}", text)
    with tempfile.TemporaryDirectory() as work:
        valid = re.search(r'(?m)^valid = \["(.*)"\]', text)
        assert valid, f"{recipe} has no single file to validate on"
        few = Path(work, "valid" + "".join(Path(valid[1]).suffixes))
        with gzip.open(few, "wt", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in islice(read_lines(Path(data, valid[1])), VALID))
        text = text.replace(valid[0], f'valid = ["{few}"]')
        path = Path(work, f"{recipe}.toml")
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "sharpbeam", "train", str(path), "--data", data, "--output", f"{work}/run"]
        began = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime


def measure(recipe: str, data: str) -> dict[str, Any]:
    """Seconds a step and hours of the whole recipe, recorded."""
    few, more = (_seconds(recipe, data, steps) for steps in STEPS)
    each = (more - few) / (STEPS[1] - STEPS[0])
    found = re.search(r"(?m)^max_steps = (\d+)", (record.ROOT / f"recipes/{recipe}.toml").read_text(encoding="utf-8"))
    assert found, f"{recipe} has no max_steps"
    steps = int(found[1])
    line = {"seconds_a_step": round(each, 3), "steps": steps, "hours": round(each * steps / 3600, 1)}
    return record.write("training", line, threads=1, options={"recipe": recipe})


def main(
    data: Data = DATA, recipe: Annotated[list[str], typer.Option(help="names below recipes/")] = list(RECIPES)
) -> None:
    """Measure, print and record."""
    for name in recipe:
        line = measure(name, data)
        print(f"{name}: {line['seconds_a_step']} s a step, {line['steps']} steps, {line['hours']} hours", flush=True)
