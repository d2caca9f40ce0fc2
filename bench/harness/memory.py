"""The memory of a process that loads a model and translates one sentence: ours, and CTranslate2's on the same weights.

Each engine has a fresh process, on one thread, that loads no other. `peak` is the most that was ever resident, loading
included (VmHWM); `anonymous` is what no file backs, which the system cannot take back.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.engines import ctranslate2_model
from bench.engines.run import LENGTH, pieces
from bench.harness import record
from bench.papers.l2s import shapes

LAYERS = ("scan", "screen")
_SAY = """
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({name: int(status[name].split()[0]) / 1024 for name in ("VmHWM", "VmRSS", "RssAnon")}))
"""
_OURS = (
    """
import json, sys
from sharpbeam import Translator
length = int(sys.argv[3])
translator = Translator(sys.argv[1], threads=1, compute_type="int8")
translator.translate([sys.argv[2]], beam_size=5, min_length=length - 1, max_length=length, output_layer=sys.argv[4])
"""
    + _SAY
)
_CTRANSLATE2 = (
    """
import json, sys
import ctranslate2
length = int(sys.argv[3])
translator = ctranslate2.Translator(sys.argv[1], compute_type="int8", inter_threads=1, intra_threads=1)
prefixes = [sys.argv[4:]] if sys.argv[4:] else None
translator.translate_batch(
    [sys.argv[2].split()], prefixes, beam_size=5, min_decoding_length=length, max_decoding_length=length
)
"""
    + _SAY
)


def measure(shape: str) -> dict[str, Any]:
    """A line with MiB of each engine after a sentence of 32 words at beam 5, int8, on random weights of a shape."""
    folder = shapes.model(shape)
    theirs = ctranslate2_model.write(folder, ctranslate2_model.home(folder) / "int8", "int8")
    text = shapes.sources(shape, 1, LENGTH - 1)[0]
    (row,), prefix = pieces(folder, [text])
    found = {"CTranslate2": _run(_CTRANSLATE2, theirs, " ".join(row), *prefix)}
    for layer in LAYERS:
        _run(_OURS, folder, text, layer)  # the first of a model hashes its weights
        found[f"ours {layer}"] = _run(_OURS, folder, text, layer)
    return record.write("memory", {"mib": found}, threads=1, options={"shape": shape, "compute_type": "int8"})


def _run(code: str, folder: Path, text: str, *more: str) -> dict[str, float]:
    command = [sys.executable, "-c", code, str(folder), text, str(LENGTH), *more]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    named = {"VmHWM": "peak", "VmRSS": "resident", "RssAnon": "anonymous"}
    return {named[name]: round(size, 1) for name, size in json.loads(out).items()}


def describe(line: dict[str, Any]) -> str:
    """One measurement, for people."""
    each = (f"{who} {one['peak']:.0f} MiB ({one['anonymous']:.0f} in no file)" for who, one in line["mib"].items())
    return f"{line['options']['shape']}, peak memory: {', '.join(each)}"


def main(shape: str = "nllb-600m") -> None:
    """Measure, print and record."""
    print(describe(measure(shape)))
