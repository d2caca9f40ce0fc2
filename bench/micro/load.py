"""How long a model takes to load and to its first answer, and its memory: ours, and CTranslate2's on the same weights.

With --named, how long Firefox's model en-pt takes from an empty cache to its first sentence: a registry on the loopback
sends it, the command line fetches, checks, converts and translates. "second" is the same command again; each is a
process of its own, from its start to its end.

Each load is a fresh process on one thread; the median of them counts, and the files are in the system's cache. `peak`
is the most that was ever resident, loading included (VmHWM); `anonymous` is what no file backs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from typing import Annotated

import typer

from bench.engines import ctranslate2_model, firefox
from bench.engines.run import LENGTH, pieces
from bench.harness import record
from bench.papers.l2s import shapes

_BEGIN = """
import json, sys, time
folder, text, length, *more = sys.argv[1:]
length, began = int(length), time.perf_counter()
"""
_END = """
answered = time.perf_counter()
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
mib = {name: int(status[name].split()[0]) / 1024 for name in ("VmHWM", "VmRSS", "RssAnon")}
print(json.dumps({"load_s": loaded - began, "first_answer_s": answered - began, "peak_mib": mib["VmHWM"],
                  "resident_mib": mib["VmRSS"], "anonymous_mib": mib["RssAnon"]}))
"""
_OURS = """
from sharpbeam import Translator
translator = Translator(folder, threads=1, compute_type="int8")
loaded = time.perf_counter()
translator.translate([text], beam_size=5, min_length=length - 1, max_length=length, output_layer=more[0])
"""
_CTRANSLATE2 = """
import ctranslate2
translator = ctranslate2.Translator(folder, compute_type="int8", inter_threads=1, intra_threads=1)
loaded = time.perf_counter()
translator.translate_batch([text.split()], [more] if more else None, beam_size=5, min_decoding_length=length,
                           max_decoding_length=length)
"""


def run(code: str, loads: int, folder: Path, text: str, *more: str) -> dict[str, float]:
    """Medians of `loads` processes, after one that is not counted: the first load of a model hashes its weights."""
    command = [sys.executable, "-c", _BEGIN + code + _END, str(folder), text, str(LENGTH), *more]
    every = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(loads + 1)
    ][1:]
    return {name: round(median(one[name] for one in every), 3) for name in every[0]}


def named(loads: int) -> None:
    """From an empty cache to the first sentence, and once more, by name; medians are recorded."""
    from support.registry import Registry, folder_files, serving

    registry = Registry()
    files = {name: data for name, data in folder_files(firefox.files("enpt")).items() if name[0] in "mlv"}
    registry.add_firefox("en", "pt", {name: data for name, data in files.items() if not name.startswith("modelMeta")})
    command = [sys.executable, "-m", "sharpbeam", "translate", "firefox:en-pt"]
    every: dict[str, list[tuple[float, float]]] = {"first": [], "second": []}
    with serving(registry):
        for _ in range(loads):
            with tempfile.TemporaryDirectory() as cache:
                place = os.environ | {"SHARPBEAM_CACHE": cache, "SHARPBEAM_MIRROR": registry.address}
                for spent in every.values():
                    began, before = time.perf_counter(), getrusage(RUSAGE_CHILDREN)
                    subprocess.run(command, input=b"A man is reading.\n", env=place, check=True, capture_output=True)
                    after = getrusage(RUSAGE_CHILDREN)
                    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                    spent.append((time.perf_counter() - began, cpu))
    figures = {
        name: {"s": round(median(s for s, _ in spent), 3), "cpu_s": round(median(cpu for _, cpu in spent), 3)}
        for name, spent in every.items()
    }
    bytes_ = sum(len(data) for path, data in registry.files.items() if path.endswith(".gz"))
    record.write("load", figures | {"fetched_mb": round(bytes_ / 1e6, 1)}, threads=1, options={"named": True})
    print(figures)


def main(
    shape: str = "nllb-600m",
    layers: Annotated[list[str], typer.Option(help="output layers of ours")] = ["scan", "screen"],
    loads: int = 3,
    named_: Annotated[bool, typer.Option("--named", help="fetch Firefox's model by its name instead")] = False,
) -> None:
    """A sentence of 32 words at beam 5, int8, on random weights of a shape; measure, print and record."""
    if named_:
        named(loads)
        return
    folder = shapes.model(shape)
    theirs = ctranslate2_model.write(folder, ctranslate2_model.home(folder) / "int8", "int8")
    text = shapes.sources(shape, 1, LENGTH - 1)[0]
    (row,), prefix = pieces(folder, [text])
    figures = {"CTranslate2": run(_CTRANSLATE2, loads, theirs, " ".join(row), *prefix)}
    figures |= {f"ours {layer}": run(_OURS, loads, folder, text, layer) for layer in layers}
    options = {"shape": shape, "compute_type": "int8", "loads": loads}
    record.write("load", {"engines": figures}, threads=1, options=options)
    for name, one in figures.items():
        print(f"{name}: {one}")
