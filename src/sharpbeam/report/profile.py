"""`profile`: where the time of decoding goes (CUBE, Table 1, in our terms).

The core times its kernels, and its part of each step, in the table "profiled" (csrc/kernels/profile.h), which only a
model that is loaded with it pays for.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sharpbeam import _core
from sharpbeam.api.generator import Generator
from sharpbeam.api.translator import Translator
from sharpbeam.decoding.inputs import requests_of
from sharpbeam.decoding.lanes import Lane
from sharpbeam.decoding.loading import LoadedModel, find_models, task_of
from sharpbeam.decoding.loop import decode
from sharpbeam.decoding.sample import sample_of
from sharpbeam.errors import OptionError
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.options.machine import COMPUTE_TYPES, MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.work import Work
from sharpbeam.types import Request

GEMMS = ("gemm", "gemm_bfloat16", "gemm_int8", "gemm_int16", "gather_dot")
MATMULS = (*GEMMS, "quantize_int8", "quantize_int16", "quantize_weights")
ATTENTION = ("mlp_keys", "mlp_scores", "dot_scores", "softmax", "multihead_scores", "multihead_context")
ACTIVATIONS = (
    *("gru", "lstm", "ssru", "tanh", "relu", "swish", "gelu", "gelu_tanh", "add", "mul"),
    *("add_norm", "add_rms_norm"),
)
RANKING = (
    *("log_sum_exp", "log_sum_exp_below", "panel_maxima", "sum_exp_in_panels", "top_k"),
    *("find_at_least", "find_in_panels", "code_tables", "preview_codes"),
)
KINDS = {  # of kernels, by component; its other time is copying and the calls themselves
    "decoder": ("decoder", {"matmuls": MATMULS, "attention": ATTENTION, "activations": ACTIVATIONS}),
    "output layer": ("output", {"matmuls": MATMULS, "ranking": RANKING}),
}
BOOKKEEPING = "search and schedule"
PEAK_STEPS = 20_000


@dataclass(frozen=True)
class TimedPart:
    """One part of the work. The seconds of all parts add up to those of the profile."""

    name: str
    seconds: float
    calls: int  # of kernels, or of the component if it calls none


@dataclass(frozen=True)
class ProfileReport:
    """Where the time of decoding went, and the choices that it was measured with."""

    model: str
    output_layer: str
    compute_type: str
    beam_size: int
    isa: str
    requests: int
    steps: int
    rows: int  # of all steps
    seconds: float
    parts: tuple[TimedPart, ...]
    peaks: dict[str, float]  # of one thread, by compute type: 10^9 multiply-adds a second of a plain loop

    @property
    def bookkeeping(self) -> float:
        """The share of search, schedule and loop in the time of the steps, which encoding is no part of."""
        seconds = {part.name: part.seconds for part in self.parts}
        return seconds[BOOKKEEPING] / (self.seconds - seconds["encoder"])

    def record(self) -> dict[str, Any]:
        """The report as JSON."""
        return dataclasses.asdict(self) | {
            "ms_per_step": round(1e3 * self.seconds / self.steps, 5),
            "ms_per_sentence": round(1e3 * self.seconds / self.requests, 5),
            "shares": {part.name: round(part.seconds / self.seconds, 5) for part in self.parts},
            "bookkeeping": round(self.bookkeeping, 5),
        }

    def summary(self) -> str:
        """The report as text."""
        in_float32 = ", in float32 whatever the compute type" if self.output_layer == "exact" else ""
        lines = [
            f"{self.requests} sentences, beam {self.beam_size}, {self.steps:,} steps of "
            f"{self.rows / self.steps:.1f} rows, on one thread; instructions: {self.isa}",
            f"matmuls of the model: {self.compute_type} (--compute-type); "
            f"output layer: {self.output_layer} (--output-layer){in_float32}",
            "",
            f"{'part':28}{'share':>8}{'us a step':>12}{'calls a step':>14}",
        ]
        for part in self.parts:
            share, microseconds = part.seconds / self.seconds, 1e6 * part.seconds / self.steps
            lines.append(f"{part.name:28}{share:8.1%}{microseconds:12,.1f}{part.calls / self.steps:14.1f}")
        lines += [
            "",
            f"{1e3 * self.seconds / self.steps:.3f} ms a step, {1e3 * self.seconds / self.requests:.2f} ms a sentence, "
            f"{self.seconds:.2f} s in all; {BOOKKEEPING} is {self.bookkeeping:.1%} of a step without encoding",
            "peak of matmuls, 10^9 multiply-adds a second: "
            + ", ".join(f"{kind} {rate:.0f}" for kind, rate in self.peaks.items()),
        ]
        return "\n".join(lines)


def profile(
    model: str,
    texts: Sequence[str] | None = None,
    *,
    sentences: int = 50,
    options: DecodeOptions | None = None,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    **keywords: Unpack[DecodeKeywords],
) -> ProfileReport:
    """Decode `texts`, or `sentences` sample sentences of the package, on one thread, and report where the time goes.

    They are decoded twice, and the second time is reported. Options are those of `Translator.translate`, with the
    model's own defaults. Raises OptionError, ModelError or InputError if decoding would.
    """
    folders = find_models(model)
    kind = Translator if task_of(folders[0]) == "translation" else Generator
    user = kind(folders, machine=dataclasses.replace(machine, isa="profiled", threads=1))
    options, loaded = (options or user.defaults).changed(**keywords), user.loaded
    texts = sample_of(loaded, options.languages)[:sentences] if texts is None else texts
    requests = requests_of(loaded, texts, options)
    search = options.search
    plain = search.search == "beam" and not (search.sampling or search.return_alternatives or search.attends)
    kinds = "of another search, samples, alternatives, attention or a coverage penalty"
    require(plain, "a profile", kinds, "of one beam search; leave the option out")
    lane = Lane(loaded, options)
    for _ in range(2):
        seconds, parts, work = _measure(loaded, lane, requests, options)
    chosen = loaded.layer_name(options), loaded.machine.compute_type, options.search.beam_size
    counts = len(requests), work.steps, work.expansions
    return ProfileReport(model, *chosen, _core.table_name(), *counts, seconds, parts, matmul_peaks())


def _measure(
    loaded: LoadedModel, lane: Lane, requests: Sequence[Request], options: DecodeOptions
) -> tuple[float, tuple[TimedPart, ...], Work]:
    """Seconds of decoding `requests`, their parts and counts; raises OptionError if steps were taken in Python."""
    run: Any = loaded.model.open()
    search: Any = lane.search()
    search.decode = None  # a request's whole search in one call would hide the encoder
    encode, encoding = run.admit, list[float]()

    def admit(entering: Sequence[Request]) -> Any:
        began = time.perf_counter()
        state = encode(entering)
        encoding.append(time.perf_counter() - began)
        return state

    run.admit = admit
    plan = Plan(requests, options.schedule, options.search.most_rows, 1, loaded.footprint)
    _core.kernel_work()  # of before
    began = time.perf_counter()
    for _ in decode(run, lane.usable, search, plan.schedule()):
        pass
    seconds, work = time.perf_counter() - began, search.work
    if work.python_steps:
        raise OptionError(f"a profile is of steps that the core takes; these were taken in Python, as {work.reason}.")
    parts = [TimedPart("encoder", sum(encoding), len(encoding)), *_core_parts()]
    rest = seconds - sum(part.seconds for part in parts)
    return seconds, (*parts, TimedPart(BOOKKEEPING, max(rest, 0.0), work.steps)), work


def _core_parts() -> Iterator[TimedPart]:
    """The parts of the core's steps since the last call; kernels that no kind names belong to the rest."""
    work = _core.kernel_work()
    for component, (name, kinds) in KINDS.items():
        calls, rest = work[name, ""]
        for kind, kernels in kinds.items():
            own = [work[name, kernel] for kernel in kernels if (name, kernel) in work]
            spent = sum(nanoseconds for _, nanoseconds in own)
            rest -= spent
            yield TimedPart(f"{component}: {kind}", spent / 1e9, sum(count for count, _ in own))
        yield TimedPart(f"{component}: the rest", max(rest, 0) / 1e9, calls)


def matmul_peaks() -> dict[str, float]:
    """10^9 multiply-adds a second of each compute type, the most that one thread reached.

    The loop has the instructions of a matmul and operands that stay in the first cache, so no matmul is faster.
    """
    peaks: dict[str, float] = {}
    for kind in COMPUTE_TYPES:
        fastest, end = float("inf"), time.perf_counter() + 0.05
        while (began := time.perf_counter()) < end:
            count = _core.run_peak(kind, PEAK_STEPS)
            fastest = min(fastest, time.perf_counter() - began)
        peaks[kind] = count / fastest / 1e9
    return peaks
