"""The output layer on GPUs: correctness everywhere, speed where there is one."""

from __future__ import annotations

from bench.scoreboard.claim import Claim, pending

NO_GPU = pending("no GPU here")
NOT_YET = pending("nothing measures it yet")

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
        "4",
        "attach() on a CPU, on the two language-model shapes, whole step",
        "at least x1.5 and x1.3, identical greedy tokens over 10,000 steps",
        NOT_YET,
    ),
    Claim(
        "5",
        "mixture of experts: native against PyTorch; training; what cannot be done",
        "equal; a smoke run on two cores; refused by name",
        NOT_YET,
    ),
]
