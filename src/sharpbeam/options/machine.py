"""What the machine should do: backend, workers, kernels, and the type of its products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sharpbeam.options.schema import option, require
from sharpbeam.options.workers import usable_cores

COMPUTE_TYPES = ("float32", "int16", "int8")  # of our own kernels


@dataclass(frozen=True)
class MachineOptions:
    """What the machine should do. Threads change no bit of the answers, nor does isa, but for the table plain; that
    and the other options may, by rounding; with blas the rows of a step may, too.
    """

    backend: Literal["native", "torch"] = option("native", "torch: the PyTorch twin, slow, for checks and GPUs")
    threads: int = option(
        0,
        "workers that decode side by side and share the weights; where there are fewer texts than threads, several "
        "work on one text. 0 = one for each core that this process may use, at most OMP_NUM_THREADS",
    )
    isa: Literal["auto", "scalar", "avx2", "avx512", "avx512vnni", "profiled", "plain"] = option(
        "auto",
        "kernel table; SHARPBEAM_ISA lowers the default. profiled: that behind clocks, for `sharpbeam profile`; "
        "plain: the C library for gates and activations, for comparisons (SHARP 4.4)",
    )
    compute_type: Literal["float32", "int16", "int8", "blas"] = option(
        "float32",
        "what the model computes its products in; int16 and int8 round weights and inputs, a scale for each row; "
        "blas: float32 by the shared library that SHARPBEAM_BLAS names, for comparisons (SHARP-0). "
        "What follows the model, the output layer, has choices of its own (output_layer)",
    )
    precomputed_embeddings: int = option(
        0,
        "GRU models: keep what the decoder's first layer computes of so many words, the first of the vocabulary, which "
        "are the frequent ones, at most all: saves a product, takes a few kilobytes for each word (SHARP 4.2)",
    )
    precomputed_attention: bool = option(
        False,
        "GRU models: compute once for each source token what is read of it, instead of in each step (SHARP 4.3); "
        "pays for short sentences",
    )
    merge_states: bool = option(
        True, "GRU models: hypotheses that differ in their last word only share products (SHARP 4.5)"
    )

    def __post_init__(self) -> None:
        require(0 <= self.threads <= 1024, "threads", self.threads, "between 0 (as many as cores) and 1024")
        require(self.backend in ("native", "torch"), "backend", self.backend, "native or torch")
        tables = ("auto", "scalar", "avx2", "avx512", "avx512vnni", "profiled", "plain")
        require(self.isa in tables, "isa", self.isa, " or ".join(tables))
        types = (*COMPUTE_TYPES, "blas")
        require(self.compute_type in types, "compute_type", self.compute_type, " or ".join(types))
        rounds = self.compute_type != "float32" and self.backend == "torch"
        require(not rounds, "compute_type", self.compute_type, "float32 with backend torch")
        most = 2**28  # words, or places: more than any vocabulary has, and what the core can count
        require(
            0 <= self.precomputed_embeddings <= most,
            "precomputed_embeddings",
            self.precomputed_embeddings,
            f"between 0 and {most}",
        )

    def shortcuts(self) -> dict[str, Any]:
        """The steps of SHARP that spare products, by name."""
        return {
            name: getattr(self, name) for name in ("precomputed_embeddings", "precomputed_attention", "merge_states")
        }

    @property
    def batch_invariant(self) -> bool:
        """Whether a text's answer has the same bits whatever is decoded beside it: padding in PyTorch, and a BLAS that
        chooses by the number of rows, may change the last ones."""
        return self.backend == "native" and self.compute_type != "blas"

    @property
    def workers(self) -> int:
        """How many workers to have: `threads`, or what 0 stands for; PyTorch has threads of its own."""
        return self.threads or (usable_cores() if self.backend == "native" else 1)
