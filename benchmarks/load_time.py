"""How long a model takes to load when its files are in the system's cache, and what memory it has then.

Each load is a fresh process, so that nothing is left from the one before; the least of them counts, for the others
were disturbed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from typing import Any

from benchmarks import record, shapes

_CODE = """
import json, sys, time
from quickbeam import Translator
from quickbeam.options.decode import MachineOptions
began = time.perf_counter()
translator = Translator(sys.argv[1], machine=MachineOptions(threads=1, compute_type=sys.argv[2]))
seconds = time.perf_counter() - began
first = time.perf_counter()
translator.translate(["w5 w6 w7"], max_length=4, beam_size=1, projection=sys.argv[3])
first = time.perf_counter() - first
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
kib = {name: int(status[name].split()[0]) for name in ("VmRSS", "VmHWM", "RssAnon")}
print(json.dumps({"seconds": seconds, "first_sentence": first, **kib}))
"""


def measure(shape: str, compute_type: str = "int8", projection: str = "scan", loads: int = 3) -> dict[str, Any]:
    """A line: seconds, and memory after one short sentence; anonymous memory is that which no file backs.

    The first sentence waits for the output layer, which is built when it is first asked for. The weights have been
    found sound by an earlier load, so they are not hashed (`quickbeam/models/checked.py`).
    """
    folder = shapes.model(shape)
    found = []
    for _ in range(1 + loads):
        command = [sys.executable, "-c", _CODE, str(folder), compute_type, projection]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found.append(json.loads(out))
    found = found[1:]  # the first one may have had to hash
    best = min(found, key=lambda one: one["seconds"])
    figures = {
        "seconds": best["seconds"],
        "seconds_of_all": [one["seconds"] for one in found],
        "first_sentence_s": best["first_sentence"],
        "resident_mib": best["VmRSS"] / 1024,
        "anonymous_mib": best["RssAnon"] / 1024,
        "peak_mib": best["VmHWM"] / 1024,
    }
    options = {"shape": shape, "compute_type": compute_type, "projection": projection}
    return record.write("load_time", figures, threads=1, options=options)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="not needed here; every benchmark takes it")
    parser.add_argument("--shape", choices=sorted(shapes.SHAPES), default="nllb-600m")
    parser.add_argument("--compute-type", default="int8")
    parser.add_argument("--projection", default="scan")
    arguments = parser.parse_args()
    line = measure(arguments.shape, arguments.compute_type, arguments.projection)
    print(json.dumps(line, indent=1))


if __name__ == "__main__":
    main()
