"""How the machine is used: device, threads, kernels, and the number type of the model's matmuls."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sharpbeam.options.schema import Schema, advanced_option, option

Device = Literal["cpu", "cuda", "torch-cpu"]
Isa = Literal[
    "auto", "scalar", "avx2", "avx512", "avxvnni", "avx512vnni", "avx512vbmi", "neon", "neondot", "neoni8mm",
    "profiled", "plain",
]  # fmt: skip
ComputeType = Literal["auto", "float32", "int16", "int8", "float16", "bfloat16"]
COMPUTE_TYPES: tuple[ComputeType, ...] = ("float32", "int16", "int8")  # of our own kernels on a CPU
DEVICE_TYPES = ("auto", "float32", "float16", "bfloat16")  # on a GPU

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of processor time, and in how many
EXACT = "SHARPBEAM_EXACT"  # environment variable
MOST_EMBEDDINGS = 2**28  # tokens: more than any vocabulary has; a limit of the core


@dataclass(frozen=True)
class MachineOptions(Schema):
    """How the machine is used.

    Neither `threads` nor `isa` changes a bit of the answers, except for the table plain. The other options may change
    them by rounding.
    """

    device: Device = option(
        "cpu", "cpu, or cuda: an NVIDIA GPU (pip install 'sharpbeam[gpu]')", internal=("torch-cpu",)
    )
    threads: int = option(
        0,
        "workers that decode in parallel and share the weights; 0 = one per usable core, at most OMP_NUM_THREADS",
        ge=0,
        le=1024,
        other_names=("inter_threads", "intra_threads", "num_threads", "cpu_threads"),
    )
    isa: Isa = advanced_option(
        "auto",
        "kernel table: auto, scalar; avx2, avx512, avxvnni, avx512vnni or avx512vbmi; neon, neondot or neoni8mm; "
        "SHARPBEAM_ISA lowers the default",
        internal=("profiled", "plain"),
    )
    compute_type: ComputeType = option(
        "auto",
        "weights and matmuls: int8 (default unless `tune` or `convert` measured otherwise), int16, float32; on a "
        "GPU float16, bfloat16",
        replaced={"default": "auto", **dict.fromkeys(("int8_float32", "int8_float16", "int8_bfloat16"), "int8")},
    )
    exact: bool = option(
        False, "the reference: auto means float32 and the exact output layer; SHARPBEAM_EXACT=1 does so everywhere"
    )
    precomputed_embeddings: int = advanced_option(
        0,
        "GRU models: compute the decoder's first input in advance for this many frequent tokens, a few kilobytes each",
        ge=0,
        le=MOST_EMBEDDINGS,
        other_names=("word_products",),
    )
    precomputed_attention: bool = advanced_option(
        False,
        "GRU models: compute once per source token what attention reads; pays for short sentences",
        other_names=("source_products",),
    )
    merge_states: bool = advanced_option(
        True,
        "GRU models: hypotheses that differ in their last token only share matmuls",
        off="GRU models: do not share matmuls between hypotheses that differ in their last token only",
    )

    def check(self) -> None:
        """Raise OptionError for a number type that the device lacks."""
        if self.device != "cpu":
            self.require(self.compute_type in DEVICE_TYPES, "compute_type", f"{' or '.join(DEVICE_TYPES)} on a GPU")
            return
        is_known = self.compute_type in (*COMPUTE_TYPES, "auto")
        self.require(is_known, "compute_type", "auto, float32, int16 or int8; float16 and bfloat16 need device cuda")

    @property
    def reference(self) -> bool:
        """Whether automatic choices are those of the reference: float32 and the exact output layer."""
        return self.exact or os.environ.get(EXACT) == "1"

    def resolved(self, tuned: str = "int8") -> MachineOptions:
        """The same with `tuned` instead of compute type auto, or float32 for the reference."""
        if self.compute_type != "auto":
            return self
        return replace(self, compute_type="float32" if self.reference else tuned)  # type: ignore[arg-type]

    def shortcuts(self) -> dict[str, Any]:
        """The steps of SHARP that save matmuls, by name."""
        names = ("precomputed_embeddings", "precomputed_attention", "merge_states")
        return {name: getattr(self, name) for name in names}

    @property
    def batch_invariant(self) -> bool:
        """Whether a text's answer has the same bits whatever is decoded with it: a GPU may change the last ones."""
        return self.device == "cpu"

    @property
    def workers(self) -> int:
        """How many workers to have: `threads`, or what 0 stands for; one on a GPU."""
        return 1 if self.device != "cpu" else self.threads or usable_cores()


def usable_cores() -> int:
    """The cores that this process may use: by its affinity, its container's quota, and OMP_NUM_THREADS if that is set.

    That variable is what other libraries go by, so a limit for those limits us too.
    """
    limits = [len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1]
    try:
        quota, period = QUOTA.read_text(encoding="ascii").split()
        if quota != "max":
            limits.append(-(-int(quota) // int(period)))
    except (OSError, ValueError):  # no container, or another kind
        pass
    limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    if limit.isdigit():
        limits.append(int(limit))
    return max(1, min(limits))
