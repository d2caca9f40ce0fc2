"""Part 1, foundation: the house stands and translates real text."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.decode import speed as decode
from bench.decode.resume import kill_and_resume
from bench.harness import machine, record
from bench.harness.testset import german_english
from bench.scoreboard.claim import Claim, Settings, Verdict
from sharpbeam import Translator, _core
from sharpbeam.report.quality import evaluate

# Where the truths of the plan are tested, each under every kernel table of the machine.
TRUTHS = ("tests/models", "tests/output_layers", "tests/search", "tests/schedule", "tests/engine")


def _make(target: str, folder: Path) -> tuple[bool, float, str]:
    """Run a make target in `folder`; returns success, seconds, and the last line that it printed."""
    began = time.perf_counter()
    result = subprocess.run(
        ["make", target, f"PYTHON={sys.base_prefix}/bin/python3"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
    return result.returncode == 0, time.perf_counter() - began, said[-1] if said else ""


def fresh_clone(settings: Settings) -> Verdict:
    """`make demo`, then `make test`, in a clone of the last commit; quickly: the tests in the tree at hand."""
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "sharpbeam")
        subprocess.run(["git", "clone", "--quiet", str(record.ROOT), str(clone)], check=True)
        demo, demo_s, demo_end = _make("demo", clone)
        tests, tests_s, tests_end = _make("test", record.ROOT if settings.quick else clone)
    where = ", installed before" if settings.quick else ""
    ends = "".join(f"; {end}" for done, end in ((demo, demo_end), (tests, tests_end)) if not done)
    holds = demo and demo_s < 300 and tests and tests_s < 600
    return Verdict(holds, f"demo {demo_s:.0f} s, test {tests_s:.0f} s{where}{ends}")


def bleu(settings: Settings) -> Verdict:
    """BLEU of the whole test set, beam 5 and greedy."""
    sources, references = german_english(settings.data)
    translator = Translator(settings.model)
    beam, greedy = (evaluate(translator, sources, references, beam_size=size).quality for size in (5, 1))
    signature = beam.bleu_signature
    return Verdict(
        beam.bleu >= 42 and greedy.bleu < beam.bleu, f"beam 5 {beam.bleu:.2f}, greedy {greedy.bleu:.2f}, {signature}"
    )


def truths(settings: Settings) -> Verdict:
    """The truths' tests, once for each kernel table; all three tables must be there."""
    folders = [folder for folder in TRUTHS if (record.ROOT / folder).is_dir()]
    found = []
    for table in _core.table_names():
        command = [sys.executable, "-m", "pytest", "-q", *folders]
        environment = os.environ | {"SHARPBEAM_ISA": table}
        result = subprocess.run(command, cwd=record.ROOT, env=environment, capture_output=True, text=True, check=False)
        found.append((table, result.returncode == 0, result.stdout.strip().splitlines()[-1].strip("= ")))
    holds = {table for table, passed, _ in found if passed} >= {"scalar", "avx2", "avx512"}
    return Verdict(holds, "; ".join(f"{table}: {end}" for table, _, end in found))


def native_speed(settings: Settings) -> Verdict:
    """Native against the twin, one sentence at a time; 32 at a time is measured with it."""
    sentences, rounds = (64, 3) if settings.quick else (320, 5)
    alone, batch = (decode.speed(settings.model, settings.data, size, sentences, rounds) for size in (1, 32))
    holds = alone["contenders"]["native"]["ratio"] >= 5
    return Verdict(holds, f"{decode.describe(alone)} | {decode.describe(batch)}")


def ceilings(settings: Settings) -> Verdict:
    """The machine's ceilings, measured now where they have not been measured on such a machine."""
    if machine.ceilings(1) is None:
        record.write("machine", machine.measure(1, 0.1), threads=1, options={"seconds": 0.1})
    line = machine.ceilings(1)
    if line is None:
        return Verdict(None, "no ceilings of this machine")
    rates, peaks = line["read_gb_s"], line["gmac_s"]
    small, large = (rates[size] for size in (min(rates, key=int), max(rates, key=int)))
    macs = ", ".join(f"{kind} {rate} GMAC/s" for kind, rate in peaks.items())
    return Verdict(None not in peaks.values(), f"read {small}-{large} GB/s, {macs}")


def bookkeeping(settings: Settings) -> Verdict:
    """Share of a step that is neither model nor output layer."""
    line = decode.step_shares(settings.model, settings.data, 50 if settings.quick else 300)
    return Verdict(line["bookkeeping"] < 0.25, f"{line['bookkeeping']:.1%} of {line['step_ms']:.3f} ms")


def resuming(settings: Settings) -> Verdict:
    """Ten kills; quickly: greedy, which takes less time."""
    equal, moments = kill_and_resume(settings.model, settings.data, 2000, 10, 1 if settings.quick else 5, seed=1)
    return Verdict(equal == 10, f"{equal} of 10 the same, killed after {min(moments)}-{max(moments)} s")


CLAIMS = [
    Claim("1", "a fresh clone demonstrates and tests itself", "demo < 300 s, test < 600 s", fresh_clone),
    Claim("2", "BLEU of de-en on Tatoeba's test set", ">= 42 at beam 5, greedy below", bleu),
    Claim("3", "truths on every kernel table", "all pass on scalar, avx2, avx512", truths),
    Claim("4", "native against PyTorch", "x5 or more at batch 1", native_speed),
    Claim("4b", "ceilings of this machine", "all measured", ceilings),
    Claim("5", "bookkeeping of a step, batch 1, beam 5", "< 25%", bookkeeping),
    Claim("6", "killed translations resume to the same file", "10 of 10", resuming),
]
