"""The output layer on GPUs: correctness everywhere, speed where there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.scoreboard.claim import Claim, Verdict, pending, recorded

NO_GPU = pending("no GPU here")
NOT_YET = pending("nothing measures it yet")


def attached(least: float) -> Callable[[dict[str, Any]], Verdict]:
    """Judge a line of bench/results/attached_head.jsonl: the speed in float32, and the tokens."""

    def judge(line: dict[str, Any]) -> Verdict:
        ratio, same = line["speed"]["head"]["ratio"], line["identity"]
        holds = ratio[0] >= least and not same["texts_that_differ"] and same["steps"] >= 10_000
        figure = f"x{ratio[0]:.2f} ({ratio[1]:.2f} to {ratio[2]:.2f}) of float32, random weights"
        return Verdict(holds, f"{figure}; {same['texts_that_differ']} texts differ in {same['steps']} steps")

    return judge


CLAIMS = [
    Claim(
        "1",
        "kernels against the reference, 500 random cases in the interpreter, and on hardware",
        "top-k identical, log-sum-exp within 1e-3",
        NOT_YET,
    ),
    Claim(
        "2a",
        "output layer at 128k and 256k tokens, fp16, 40 rows, over dense GEMM + softmax + top-k of PyTorch",
        "at least x4",
        NO_GPU,
    ),
    Claim("2b", "the same over the fused dense baseline (paper: x2.6, x2.4)", "at least x2", NO_GPU),
    Claim("2c", "the same, one sentence", "at least x8", NO_GPU),
    Claim("3a", "end to end, dense, beam 1, batch 1", "at least +30%, BLEU within 0.3", NO_GPU),
    Claim("3b", "end to end, mixture of experts", "at least +10%, BLEU within 0.3", NO_GPU),
    Claim("3c", "STREAM at k = 50", "at least -60% against FIXED and -14% against VAR-BATCH", NO_GPU),
    Claim(
        "4a",
        "attach() on a CPU, Gemma-3-270M's shape, whole step",
        "at least x1.5, identical greedy tokens over 10,000 steps",
        recorded("attached_head", attached(1.5), shape="gemma-3-270m"),
    ),
    Claim(
        "4b",
        "attach() on a CPU, Qwen3-0.6B's shape, whole step",
        "at least x1.3, identical greedy tokens over 10,000 steps",
        recorded("attached_head", attached(1.3), shape="qwen3-0.6b"),
    ),
    Claim(
        "5",
        "mixture of experts: native against PyTorch; training; what cannot be done",
        "equal; a smoke run on two cores; refused by name",
        NOT_YET,
    ),
]
