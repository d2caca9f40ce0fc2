"""The output layer on GPUs: correctness everywhere, speed where there is one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

from bench.harness import record
from bench.scoreboard.claim import Claim, Settings, Verdict, recorded

EXPERTS = (
    "tests/unit/models/test_experts.py",
    "tests/unit/models/test_core_config.py",
    "tests/unit/convert/test_nllb_moe.py",
    "tests/unit/train/test_transformer.py",
)


def attached(shape: str, least: float) -> Callable[[Settings], Verdict]:
    """Judge the lines of bench/results/attached_head.jsonl: the fastest with the head over the fastest without it."""

    def fastest(line: dict[str, Any]) -> Verdict:
        speed = line["speed"]
        ratio = {name: found["ratio"][0] for name, found in speed.items()}
        alone = max(("float32", "bfloat16"), key=ratio.__getitem__)
        best = max((name for name in ratio if name.endswith("head")), key=ratio.__getitem__)
        gain = ratio[best] / ratio[alone]
        own = ratio["float32 and head"] / ratio["float32"]
        said = f"x{gain:.2f} ({best} over {alone}), x{own:.2f} in float32; random weights, load {line['load']}"
        return Verdict(gain >= least, said)

    def same(line: dict[str, Any]) -> Verdict:
        found = line["identity"]
        holds = not found["texts_that_differ"] and found["steps"] >= 10_000
        return Verdict(holds, f"{found['texts_that_differ']} texts differ in {found['steps']} steps of float32")

    def measure(settings: Settings) -> Verdict:
        parts = [
            recorded("attached_head", judge, shape=shape, part=part)(settings)
            for part, judge in (("speed", fastest), ("identity", same))
        ]
        said = "; ".join(part.figure for part in parts)
        if any(part.holds is None for part in parts):
            return Verdict(None, said)
        return Verdict(all(part.holds for part in parts), said)

    return measure


def experts(settings: Settings) -> Verdict:
    """The tests of mixtures: both backends, training, NLLB-MoE against `generate`, refusals; none may be skipped."""
    command = [sys.executable, "-m", "pytest", "-q", "-rs", *EXPERTS]
    result = subprocess.run(command, cwd=record.ROOT, capture_output=True, text=True, check=False)
    end = result.stdout.strip().splitlines()[-1].strip("= ")
    return Verdict(None if "skipped" in end else result.returncode == 0, end)


def kernels(line: dict[str, Any]) -> Verdict:
    """Judge a line of the kernels in bench/results/gpu.jsonl."""
    kinds = line["kinds"].values()
    cases, differ = (sum(kind[what] for kind in kinds) for what in ("cases", "differ"))
    error, where = max(kind["error"] for kind in kinds), line["options"]["device"]
    figure = f"{differ} of {cases} differ, log-sum-exp within {error:.0e}, on: {where}"
    return Verdict(cases >= 500 and not differ and error <= 1e-3, figure)


def faster(name: str, than: str, least: float) -> Callable[[dict[str, Any]], Verdict]:
    """Judge a line of one shape of an output layer: how much faster `name` is than another."""

    def judge(line: dict[str, Any]) -> Verdict:
        found = line["contenders"]
        ratio = found[name]["ratio"][0] / found[than]["ratio"][0]
        figure = f"{name} x{ratio:.2f} of {than} at {line['options']['vocab']} tokens, {line['options']['device']}"
        return Verdict(ratio >= least, figure)

    return judge


def large_vocabulary(than: str, least: float, rows: int) -> Callable[[Settings], Verdict]:
    """`measure` of a claim about 128k and 256k tokens: both must hold."""
    shapes = [
        recorded("gpu", faster("grouped", than, least), part="output_layers", vocab=vocab, rows=rows)
        for vocab in (128_000, 256_000)
    ]

    def measure(settings: Settings) -> Verdict:
        verdicts = [shape(settings) for shape in shapes]
        missing = [verdict for verdict in verdicts if verdict.holds is None]
        if missing:
            return missing[0]
        return Verdict(all(v.holds for v in verdicts), "; ".join(v.figure for v in verdicts))

    return measure


def end_to_end(least: float) -> Callable[[dict[str, Any]], Verdict]:
    """Judge a line of whole translations: a screen over all tokens, and BLEU."""

    def judge(line: dict[str, Any]) -> Verdict:
        found = line["contenders"]
        if "screen" not in found:
            return Verdict(None, "the model that was measured has no screen")
        gain, change = found["screen"]["ratio"][0] - 1, found["screen"]["bleu"] - found["exact"]["bleu"]
        figure = f"{gain:+.0%} tokens/s, BLEU {change:+.2f}, {line['options']['device']}"
        return Verdict(gain >= least and abs(change) <= 0.3, figure)

    return judge


def stream(line: dict[str, Any]) -> Verdict:
    """Judge a line of STREAM's strategies."""
    ratio = {name: found["ratio"][0] for name, found in line["contenders"].items()}
    fixed, batch = (1 - ratio[name] / ratio["VAR-STREAM"] for name in ("FIXED", "VAR-BATCH"))
    figure = f"{-fixed:+.0%} of FIXED's time, {-batch:+.0%} of VAR-BATCH's, {line['options']['device']}"
    return Verdict(fixed >= 0.6 and batch >= 0.14, figure)


CLAIMS = [
    Claim(
        "1",
        "kernels against the reference, 500 random cases in the interpreter, and on hardware",
        "top-k identical, log-sum-exp within 1e-3",
        recorded("gpu", kernels, part="kernels"),
    ),
    Claim(
        "2a",
        "output layer at 128k and 256k tokens, fp16, 40 rows, over dense GEMM + softmax + top-k of PyTorch",
        "at least x4",
        large_vocabulary("pytorch", 4.0, rows=40),
    ),
    Claim(
        "2b",
        "the same over the fused dense baseline (paper: x2.6, x2.4)",
        "at least x2",
        large_vocabulary("fused", 2.0, rows=40),
    ),
    Claim("2c", "the same, one sentence", "at least x8", large_vocabulary("pytorch", 8.0, rows=1)),
    Claim(
        "3a",
        "end to end, dense, beam 1, batch 1",
        "at least +30%, BLEU within 0.3",
        recorded("gpu", end_to_end(0.3), part="end_to_end", kind="dense", beam=1),
    ),
    Claim(
        "3b",
        "end to end, mixture of experts",
        "at least +10%, BLEU within 0.3",
        recorded("gpu", end_to_end(0.1), part="end_to_end", kind="experts"),
    ),
    Claim(
        "3c",
        "STREAM at k = 50",
        "at least -60% against FIXED and -14% against VAR-BATCH",
        recorded("gpu", stream, part="stream", beam=50),
    ),
    Claim(
        "4a",
        "attach() on a CPU, Gemma-3-270M's shape, whole step",
        "at least x1.5, identical greedy tokens over 10,000 steps",
        attached("gemma-3-270m", 1.5),
    ),
    Claim(
        "4b",
        "attach() on a CPU, Qwen3-0.6B's shape, whole step",
        "at least x1.3, identical greedy tokens over 10,000 steps",
        attached("qwen3-0.6b", 1.3),
    ),
    Claim(
        "5",
        "mixture of experts: native against PyTorch; training; what cannot be done",
        "equal; a smoke run on two cores; refused by name",
        experts,
    ),
]
