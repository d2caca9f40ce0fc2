"""Part 4, sharp models on dull hardware: the recurrent engine on one thread, and on two."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

from bench.harness import record
from bench.micro import gemm as products
from bench.micro import latency, rounding, workers
from bench.papers.sharp import sharp, table2
from bench.scoreboard.claim import Claim, Settings, Verdict

FASTEST = {"compute_type": "int8", "output_layer": "scan"}
TESTED = (
    "tests/kernels",
    "tests/unit/models/test_decoding.py",
    "tests/unit/models/test_twin.py",
    "tests/unit/decoding/test_forced.py",
    "tests/unit/api/test_translator.py",
)


# Sentences of a test set that are timed (rounds) and judged: SHARP-0 takes a tenth of a second for one of newstest2013.
SIZES = {"tatoeba": (60, 5, 1000), "newstest2013": (12, 5, 120)}
QUICK_SIZES = {"tatoeba": (12, 1, 100), "newstest2013": (3, 1, 20)}


@cache
def ablation(settings: Settings, name: str) -> dict[str, Any]:
    """The table on one test set, measured once for all claims."""
    sizes = QUICK_SIZES if settings.quick else SIZES
    line = sharp.ablation(settings.model, settings.data, name, *sizes[name], quick=settings.quick)
    print(sharp.describe(line), flush=True)
    return line


@dataclass(frozen=True)
class Factor:
    """The factor over SHARP-0 of all five steps together, in one type, on both test sets, and what they change."""

    compute_type: str
    target: float

    def __call__(self, settings: Settings) -> Verdict:
        holds, said = True, []
        for name in sharp.SETS:
            rows = ablation(settings, name)["steps"]
            factors = {step: rows[f"{step} {self.compute_type}"]["ratio"] for step in list(sharp.PAPER)[1:]}
            last = rows[f"SHARP-5 {self.compute_type}"]
            off = abs(last["bleu"] - rows[sharp.BASELINE]["bleu"])
            holds &= factors["SHARP-5"] >= self.target and last["same"] >= sharp.SAME and off <= sharp.BLEU_WITHIN
            each = ", ".join(f"x{factor:.2f}" for factor in factors.values())
            kept = f"{last['same']:.2%} the same, BLEU off {off:.3f}"
            said.append(f"{name}: {each} (paper x{sharp.PAPER['SHARP-5']}), {kept}")
            if self.compute_type == "int8":
                said += (f"{rows[step]['says']} x{rows[step]['ratio']:.2f}" for step in sharp.BEYOND)
        return Verdict(holds, "; ".join(said))


def exact_steps(settings: Settings) -> Verdict:
    """The share that exact steps leave unchanged, each against the row before it."""
    least = {name: sharp.least_same(ablation(settings, name)) for name in sharp.SETS}
    said = "; ".join(f"{name} {share:.2%} at least" for name, share in least.items())
    return Verdict(min(least.values()) >= 0.999, said)


def ablation_bleu(settings: Settings) -> Verdict:
    """How far any row's BLEU lies off SHARP-0's, quantization included, as in the paper."""
    off = {name: sharp.bleu_off(ablation(settings, name)) for name in sharp.SETS}
    said = "; ".join(f"{name} up to {each:.3f} off" for name, each in off.items())
    return Verdict(max(off.values()) <= sharp.BLEU_WITHIN, said)


def exact_bleu(settings: Settings) -> Verdict:
    """How far exact steps move BLEU from the row before."""
    moved = {name: sharp.bleu_moved(ablation(settings, name)) for name in sharp.SETS}
    said = "; ".join(f"{name} {each:.3f} at most" for name, each in moved.items())
    return Verdict(max(moved.values()) <= sharp.BLEU_WITHIN, said)


def kernels(settings: Settings) -> Verdict:
    """Products of few rows against both ceilings, by the worst shape."""
    shapes, rounds = (products.QUICK_SHAPES, 5) if settings.quick else (products.SHAPES, 30)
    line = products.measure(shapes, rounds)
    reached = {
        kind: (
            products.worst(line, kind, "of_bandwidth", range(1, 3)),
            products.worst(line, kind, "of_arithmetic", range(8, 17)),
        )
        for kind in ("int16", "int8")
    }
    if max(share for both in reached.values() for share in both) > 1.2:  # the products take their thread's own time
        return Verdict(False, f"the ceilings were taken on a busy machine, so the shares are too large: {reached}")
    holds = all(read >= 0.8 and computed >= 0.7 for read, computed in reached.values())
    said = "; ".join(
        f"{kind} {read:.0%} of bandwidth at 1-2 rows, {computed:.0%} of arithmetic at 8-16"
        for kind, (read, computed) in reached.items()
    )
    return Verdict(holds, said)


def models(settings: Settings) -> Verdict:
    """Table 2: S1 to S7, all of them trained, and ensembles that are better than their best member."""
    sentences, rounds = (60, 1) if settings.quick else (600, 3)
    line = table2.measure(settings.models, settings.data, FASTEST["compute_type"], sentences, rounds)
    bleu = {name: row["bleu"]["tatoeba"] for name, row in line["rows"].items()}
    better = all(bleu[e] > max(bleu[m] for m in table2.MEMBERS[e]) for e in ("E1", "E2") if e in bleu)
    said = "; ".join(
        f"{name} {bleu[name]:.2f} BLEU, {row['words_per_second']:.0f} words/s" for name, row in line["rows"].items()
    )
    step = line["step_ms"]
    said += f"; a step of S7 x{step['S7'] / step[next(iter(step))]:.1f} of {next(iter(step))}'s"
    missing = [name for name in table2.PAPER if name not in line["rows"]]
    lacking = f"; not trained: {', '.join(missing)}" if missing else ""
    return Verdict(better and not missing, said + lacking)


def truths(settings: Settings) -> Verdict:
    """Bit-equal tables, rows and threads, steps like teacher forcing: the tests; and BLEU of rounded products."""
    command = [sys.executable, "-m", "pytest", "-q", *TESTED]
    environment = {key: value for key, value in os.environ.items() if key != "SHARPBEAM_BLAS"}
    tested = subprocess.run(command, cwd=record.ROOT, env=environment, capture_output=True, text=True, check=False)
    line = rounding.measure(settings.models, settings.data, 100 if settings.quick else 0)
    end = (tested.stdout.strip().splitlines() or ["nothing"])[-1].strip("= ")
    said = "; ".join(rounding.describe(line).splitlines())
    return Verdict(tested.returncode == 0 and rounding.farthest(line) <= 0.1, f"tests: {end}; BLEU: {said}")


def two_workers(settings: Settings) -> Verdict:
    """Throughput and memory of two workers against one, in batches and one sentence at a time."""
    sentences, rounds = (100, 3) if settings.quick else (1000, 5)
    lines = [
        workers.measure(settings.model, settings.data, {**FASTEST, "batch_tokens": tokens}, sentences, rounds)
        for tokens in (0, 1)
    ]
    holds = all(line["ratio"] >= 1.9 and line["memory_ratio"] <= 1.15 for line in lines)
    names = ("batches", "one sentence at a time")
    return Verdict(holds, "; ".join(f"{n}: {workers.describe(line)}" for n, line in zip(names, lines, strict=True)))


def sentence_latency(settings: Settings) -> Verdict:
    """How long a sentence takes, and what of its steps is bookkeeping."""
    sentences = 60 if settings.quick else 1000
    line = latency.measure(settings.model, settings.data, FASTEST["compute_type"], FASTEST["output_layer"], sentences)
    return Verdict(line["bookkeeping"] < 0.05, latency.describe(line))


CLAIMS = [
    Claim("1a", "five steps of SHARP with int8", ">= x9, 99.9% the same, BLEU within 0.02", Factor("int8", 9.0)),
    Claim("1b", "five steps of SHARP with int16", ">= x6, 99.9% the same, BLEU within 0.02", Factor("int16", 6.0)),
    Claim("1c", "exact steps say the same as the row before", ">= 99.9% of the outputs", exact_steps),
    Claim("1d", "BLEU of every row against SHARP-0", "within 0.02", ablation_bleu),
    Claim("1e", "BLEU of exact steps against the row before", "within 0.02", exact_bleu),
    Claim("2", "int16 and int8 products against the ceilings", ">= 80% and >= 70%", kernels),
    Claim("3", "Table 2 of the paper: configs and ensembles", "all trained, ensembles above their members", models),
    Claim("4", "tables, threads and steps agree; BLEU of int16 and int8", "tests pass, within 0.1 of float32", truths),
    Claim("5", "two workers against one", ">= x1.9, memory <= x1.15", two_workers),
    Claim("6", "latency of a sentence by length, and bookkeeping", "bookkeeping < 5% of a step", sentence_latency),
]
