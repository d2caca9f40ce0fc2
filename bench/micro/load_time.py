"""How long a model takes to load, and to its first answer, when its files are in the system's cache; and its memory.

Each load is a fresh process, so that nothing is left from the one before; the median of them counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from typing import Any

from bench.harness import record
from bench.papers.l2s import shapes

_CODE = """
import json, sys, time
from sharpbeam import Translator
from sharpbeam.options.decode import MachineOptions
began = time.perf_counter()
translator = Translator(sys.argv[1], machine=MachineOptions(threads=1, compute_type=sys.argv[2]))
seconds = time.perf_counter() - began
first = time.perf_counter()
translator.translate(["w5 w6 w7"], max_length=4, beam_size=1, output_layer=sys.argv[3])
first = time.perf_counter() - first
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
kib = {name: int(status[name].split()[0]) for name in ("VmRSS", "VmHWM", "RssAnon")}
print(json.dumps({"seconds": seconds, "first_sentence": first, **kib}))
"""


def measure(shape: str, compute_type: str = "int8", output_layer: str = "scan", loads: int = 5) -> dict[str, Any]:
    """A line: seconds, and memory after one short sentence; anonymous memory is that which no file backs.

    `seconds` is loading the model; `first_sentence_s` has the packing of the output layer in it, which is built when it
    is first asked for; `first_answer_s` is both. The weights have been found sound by an earlier load, so they are not
    hashed (`sharpbeam/models/checked.py`).
    """
    folder = shapes.model(shape)
    found = []
    for _ in range(1 + loads):
        command = [sys.executable, "-c", _CODE, str(folder), compute_type, output_layer]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found.append(json.loads(out))
    found = found[1:]  # the first one may have had to hash
    spent = {
        "seconds": [one["seconds"] for one in found],
        "first_sentence_s": [one["first_sentence"] for one in found],
        "first_answer_s": [one["seconds"] + one["first_sentence"] for one in found],
    }
    figures: dict[str, Any] = {name: median(times) for name, times in spent.items()}
    figures["all"] = spent
    for name, kib in (("resident_mib", "VmRSS"), ("anonymous_mib", "RssAnon"), ("peak_mib", "VmHWM")):
        figures[name] = median(one[kib] for one in found) / 1024
    options = {"shape": shape, "compute_type": compute_type, "output_layer": output_layer}
    return record.write("load_time", figures, threads=1, options=options)


def describe(line: dict[str, Any]) -> str:
    """The times of the parts, medians with the least and the most."""

    def said(name: str) -> str:
        return f"{line[name]:.2f} s ({min(line['all'][name]):.2f} to {max(line['all'][name]):.2f})"

    o = line["options"]
    return (
        f"{o['shape']}, {len(line['all']['seconds'])} loads: the model {said('seconds')}, a first sentence, which "
        f"packs {o['output_layer']}, {said('first_sentence_s')}, both {said('first_answer_s')}; "
        f"{line['resident_mib']:.0f} MiB resident, {line['peak_mib']:.0f} at most"
    )


def main(shape: str = "nllb-600m", compute_type: str = "int8", output_layer: str = "scan") -> None:
    """Measure, print and record."""
    print(describe(measure(shape, compute_type, output_layer)))
