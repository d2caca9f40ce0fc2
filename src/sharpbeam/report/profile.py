"""`profile`: where the time of decoding goes (CUBE, Table 1, in our terms).

The core times its kernels, and its part of each step, in the table "profiled" (csrc/kernels/profile.h), which only a
model that is loaded with it pays for. Calls that the loop makes in Python are timed from outside.
"""

from __future__ import annotations

import dataclasses
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from sharpbeam import _core
from sharpbeam.api.generator import Generator
from sharpbeam.api.translator import Translator
from sharpbeam.decoding.inputs import requests_of
from sharpbeam.decoding.lanes import beam_lane
from sharpbeam.decoding.loading import find_models, task_of
from sharpbeam.decoding.loop import decode
from sharpbeam.fit.texts import sample_of
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.options.machine import COMPUTE_TYPES, MachineOptions
from sharpbeam.scheduling.plan import Plan

MATMULS = (
    *("gemm", "gemm_int8", "gemm_int16", "gather_dot"),
    *("quantize_int8", "quantize_int16", "quantize_weights"),
)
ATTENTION = ("mlp_keys", "mlp_scores", "dot_scores", "softmax", "weighted_sum", "multihead_scores", "multihead_context")
ACTIVATIONS = (
    *("gru", "lstm", "ssru", "tanh", "sigmoid", "relu", "swish", "gelu", "gelu_tanh", "add", "mul"),
    *("add_norm", "add_rms_norm"),
)
RANKING = (
    *("log_sum_exp", "log_sum_exp_below", "panel_maxima", "sum_exp_in_panels", "top_k"),
    *("find_at_least", "find_in_panels", "preview_codes"),
)
KINDS = {  # of kernels, by component; its other time is copying and the calls themselves
    "encoder": {},
    "decoder": {"matmuls": MATMULS, "attention": ATTENTION, "activations": ACTIVATIONS},
    "output layer": {"matmuls": MATMULS, "ranking": RANKING},
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
    requests = requests_of(loaded, sample_of(loaded)[:sentences] if texts is None else texts, None, options)
    lane = beam_lane(loaded, options, "a profile")
    for _ in range(2):
        clock = _Clock()
        run = clock.watch(loaded.model.open(), admit="encoder", step="decoder")
        layer = clock.watch(lane.usable.open(), topk="output layer", log_prob="output layer")
        search: Any = lane.search()
        search.decode = None  # a request's whole search in one call would hide the encoder
        plan = Plan(requests, options.schedule, options.search.most_rows, 1, loaded.footprint)
        opened: Any = SimpleNamespace(open=lambda layer=layer: layer)
        for _ in decode(run, opened, search, plan.schedule()):
            pass
        parts = clock.parts()
    work = search.work
    chosen = loaded.layer_name(options), loaded.machine.compute_type, options.search.beam_size
    seconds = sum(part.seconds for part in parts)
    counts = len(requests), work.steps, work.expansions
    return ProfileReport(model, *chosen, _core.table_name(), *counts, seconds, parts, matmul_peaks())


def matmul_peaks(seconds: float = 0.05) -> dict[str, float]:
    """10^9 multiply-adds a second of each compute type, the most that one thread reached in `seconds`.

    The loop has the instructions of a matmul and operands that stay in the first cache, so no matmul is faster.
    """
    peaks: dict[str, float] = {}
    for kind in COMPUTE_TYPES:
        fastest, end = float("inf"), time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            count = _core.run_peak(kind, PEAK_STEPS)
            fastest = min(fastest, time.perf_counter() - began)
        peaks[kind] = count / fastest / 1e9
    return peaks


class _Clock:
    """The time of each component, and of its kernels. For one thread; watched calls are not within each other."""

    def __init__(self) -> None:
        _core.kernel_work()  # of before
        self._seconds, self._calls = defaultdict[str, float](float), Counter[str]()
        self._kernel_seconds = defaultdict[tuple[str, str], float](float)
        self._kernel_calls = Counter[tuple[str, str]]()
        self._began, self._own = time.perf_counter(), 0.0

    def watch(self, component: Any, **parts: str) -> Any:
        """`component`, the named methods of which are timed as these parts."""
        for method, part in parts.items():
            setattr(component, method, self._timed(getattr(component, method), part))
        return component

    def parts(self) -> tuple[TimedPart, ...]:
        """The parts so far, in the order of a step; kernels that no kind names belong to the rest of a component."""
        seconds = time.perf_counter() - self._began - self._own
        self._take_kernels(BOOKKEEPING)
        parts = []
        for component, kinds in KINDS.items():
            rest = self._seconds[component]
            for kind, kernels in kinds.items():
                spent = sum(self._kernel_seconds[component, kernel] for kernel in kernels)
                calls = sum(self._kernel_calls[component, kernel] for kernel in kernels)
                parts.append(TimedPart(f"{component}: {kind}", spent, calls))
                rest -= spent
            name = f"{component}: the rest" if kinds else component
            parts.append(TimedPart(name, max(rest, 0.0), self._calls[component]))
        rest = seconds - sum(self._seconds.values())
        return (*parts, TimedPart(BOOKKEEPING, max(rest, 0.0), self._calls["decoder"]))

    def _timed(self, method: Callable[..., Any], part: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            began = time.perf_counter()
            result = method(*arguments)
            ended = time.perf_counter()
            self._seconds[part] += ended - began
            self._calls[part] += 1
            self._take_kernels(part)
            self._own += time.perf_counter() - ended
            return result

        return call

    def _take_kernels(self, caller: str) -> None:
        """Add the kernels' work since the last call; `caller` called those that are of no step that the core took."""
        for (component, kernel), (calls, nanoseconds) in _core.kernel_work().items():
            part = {"output": "output layer"}.get(component, component or caller)
            if kernel:
                self._kernel_seconds[part, kernel] += nanoseconds / 1e9
                self._kernel_calls[part, kernel] += calls
            else:  # a component's part of a step that the core took
                self._seconds[part] += nanoseconds / 1e9
                self._calls[part] += calls
