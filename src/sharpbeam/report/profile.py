"""Where the time of decoding goes: each part of a step, and how near its kernels come to what the machine can do.

CUBE (Zhang et al. 2018), Table 1, in our terms. The interfaces of the loop are watched from outside, and the kernels by
the table "profiled" (csrc/kernels/profile.h), which only a model that is loaded with it pays for.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam import _core
from sharpbeam.api.generator import Generator
from sharpbeam.api.translator import Translator
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.loop import decode
from sharpbeam.errors import InputError
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.decode import COMPUTE_TYPES, DecodeOptions, MachineOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.storage.model_folder import read_config

PRODUCTS = {  # by the type of their numbers
    "gemm": "float32",
    "gather_dot": "float32",
    "gemm_int16": "int16",
    "gemm_int8": "int8",
    "gather_dot_int4": "int8",
    "preview_int4": "int8",  # which is what its nibbles are unpacked to
}
ROUNDING = ("quantize_int8", "quantize_int16", "quantize_weights")
ATTENTION = ("mlp_keys", "mlp_scores", "dot_scores", "softmax", "weighted_sum", "multihead_scores", "multihead_context")
NORMS = ("add_norm", "add_rms_norm")
ELEMENTWISE = ("gru", "lstm", "tanh", "sigmoid", "ssru", "relu", "swish", "gelu", "gelu_tanh", "add", "mul", *NORMS)
RANKING = (
    "log_sum_exp",
    "log_sum_exp_below",
    "panel_maxima",
    "sum_exp_in_panels",
    "top_k",
    "find_at_least",
    "find_in_panels",
)
PEAK_STEPS = 10_000  # of a loop: 0.1 ms or less
RANDOM_WORDS = 12  # of a sentence that stands for real text


@dataclass(frozen=True)
class TimedPart:
    """One part of the work. The seconds of all parts add up to those of the profile."""

    name: str
    seconds: float
    calls: int  # of kernels, or of the component if it calls none
    bytes: int = 0  # that its kernels read and write, each array once for each call
    operations: int = 0  # multiply-adds of products, elements of anything else
    products: dict[str, int] = field(default_factory=dict)  # those of products, by the type of their numbers

    def of_ceiling(self, limits: Ceilings) -> float:
        """The least time that its matmuls could take, for reading or for computing, as a share of its own."""
        reading = self.bytes / (limits.read_gb_s * 1e9)
        computing = sum(macs / (limits.gmac_s[kind] * 1e9) for kind, macs in self.products.items())
        return max(reading, computing) / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Ceilings:
    """The ceilings of one thread of this machine: measured, with the processor as busy as it was."""

    read_gb_s: float  # of a set of read_mib that is read again and again
    read_mib: float
    gmac_s: dict[str, float]  # of a plain loop of the instructions of a matmul, by type


@dataclass(frozen=True)
class Profile:
    """Where the time went."""

    seconds: float
    steps: int
    rows: int  # of all steps
    requests: int
    isa: str
    parts: tuple[TimedPart, ...]

    def share(self, name: str) -> float:
        """Of the time, for the parts whose names begin with `name`."""
        return sum(part.seconds for part in self.parts if part.name.startswith(name)) / self.seconds

    @property
    def product_bytes(self) -> int:
        """Bytes that the matmuls of a step read and write."""
        return sum(part.bytes for part in self.parts if "products" in part.name) // self.steps

    @property
    def bookkeeping(self) -> float:
        """The share of search, schedule, states and loop in the time of the steps, which encoding is no part of."""
        ours = sum(self.share(name) for name in ("search", "schedule", "states", "loop"))
        return ours / (1.0 - self.share("encoder"))


class Clocks:
    """Charges time to the innermost part at work, and what the kernels did meanwhile. For one thread."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self.within: Counter[str] = Counter()  # how many parts began inside of each
        self.kernels: defaultdict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
        self._stack = ["loop"]
        self._since = time.perf_counter()

    def begin(self, part: str) -> None:
        """Charge what follows to `part`; what it calls in turn may begin a part of its own."""
        self._charge()
        self.within[self._stack[-1]] += 1
        self._stack.append(part)
        self.calls[part] += 1
        self._since = time.perf_counter()

    def end(self) -> None:
        """Charge the part that began last, and continue the one around it."""
        self._charge()
        self._stack.pop()
        self._since = time.perf_counter()

    def stop(self) -> None:
        """Charge the remaining time, and subtract the cost of the clocks from each part and the one around it."""
        self._charge()
        inside, around = _cost_of_a_part()
        for part in self.seconds:
            spent = self.calls[part] * inside + self.within[part] * around
            self.seconds[part] = max(self.seconds[part] - spent, 0.0)

    def _charge(self) -> None:
        now = time.perf_counter()  # what follows, up to the next reading of the clock, belongs to no part
        part = self._stack[-1]
        self.seconds[part] += now - self._since
        for (inner, kernel), work in _core.kernel_work().items():
            if kernel:
                place = (inner or part, kernel)
                self.kernels[place] = [a + b for a, b in zip(self.kernels[place], work, strict=True)]
            else:  # a part of a step that the core took whole
                self.calls[inner] += work[0]
                self.seconds[inner] += work[1] / 1e9
                self.seconds[part] -= work[1] / 1e9


class Watched:
    """An object whose named methods are charged to parts; everything else is its own."""

    def __init__(self, watched: Any, clocks: Clocks, parts: dict[str, str]) -> None:
        self._watched = watched
        for method, part in parts.items():
            setattr(self, method, _charged(getattr(watched, method), clocks, part))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watched, name)


def _charged(function: Callable[..., Any], clocks: Clocks, part: str) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        clocks.begin(part)
        try:
            return function(*arguments)
        finally:
            clocks.end()

    return run


def _cost_of_a_part(times: int = 500) -> tuple[float, float]:
    """Seconds that a watched call of nothing adds to its own part, and to the one around it."""
    clocks = Clocks()
    call = _charged(lambda: None, clocks, "nothing")
    for _ in range(times):
        call()
    clocks._charge()
    return clocks.seconds["nothing"] / times, clocks.seconds["loop"] / times


class _Opened:
    """An output layer whose runs are watched."""

    def __init__(self, layer: Any, clocks: Clocks) -> None:
        self._layer, self._clocks, self.vocab_size = layer, clocks, layer.vocab_size

    def open(self) -> Any:
        names = {"topk": "output", "log_prob": "output", "admit": "output", "evict": "output"}
        return Watched(self._layer.open(), self._clocks, names)


def load_profiled(folders: Sequence[Path], machine: MachineOptions) -> Translator | Generator:
    """The model in `folders`, of either task, with the table "profiled" for one thread."""
    kind = Translator if architecture_of(read_config(folders[0])).task == "translation" else Generator
    return kind(folders, machine=replace(machine, isa="profiled", threads=1))


def profile_texts(
    loaded: Translator | Generator, texts: Sequence[str] | None, sentences: int, choices: DecodeOptions
) -> Profile:
    """The profile of decoding `texts`, or as many `sentences` of random words, on this thread.

    They are decoded twice: what the first time makes once and for all is not charged. The model has to be loaded with
    the table "profiled". Raises OptionError, ModelError or InputError if decoding would, and if nothing is
    left to decode.
    """
    setup = loaded.setup(_random_texts(loaded.loaded, sentences) if texts is None else texts, choices)
    for _ in range(2):
        clocks = Clocks()
        model = {"admit": "encoder", "step": "decoder", "retain": "states", "evict": "states"}
        run = Watched(loaded.loaded.model.open(), clocks, model)
        search: Any = setup.make_search()
        plan = Plan(setup.requests, choices.schedule, choices.search.most_rows, 1, loaded.loaded.footprint)
        schedule: Any = Watched(plan.schedule(), clocks, dict.fromkeys(("refill", "select", "apply"), "schedule"))
        layer: Any = _Opened(setup.layer, clocks)
        watched: Any = Watched(search, clocks, {"begin": "search", "step": "search"})
        watched.decodes = lambda *_: False  # all steps in one call would hide their parts
        for _ in decode(run, layer, watched, schedule):
            pass
        clocks.stop()
    work = search.work
    seconds, requests = sum(clocks.seconds.values()), len(setup.requests)
    return Profile(seconds, work.steps, work.expansions, requests, _core.table_name(), _parts(clocks))


def _random_texts(loaded: LoadedModel, sentences: int) -> list[str]:
    """Texts of random pieces, with the tokens that stand for no text left out."""
    vocabulary, language_tags = loaded.source, loaded.language_tags
    words = sorted(set(range(len(vocabulary))) - {*vocabulary.special_ids.values(), *language_tags.tokens.values()})
    if not words:
        raise InputError(f"the vocabulary has {len(vocabulary)} entries and no word among them; give a text.")
    draw = np.random.default_rng(1)
    return [vocabulary.decode(draw.choice(words, RANDOM_WORDS).tolist()) for _ in range(sentences)]


# The parts of a component, by the kernels at work there; the rest is copying and the call itself.
KINDS: dict[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    "encoder": (("encoder", ()),),
    "decoder": (
        ("decoder: products", (*PRODUCTS, *ROUNDING)),
        ("decoder: attention", ATTENTION),
        ("decoder: activations", ELEMENTWISE),
        ("decoder: the rest", ()),
    ),
    "output": (
        ("output layer: products", (*PRODUCTS, *ROUNDING)),
        ("output layer: ranking", RANKING),
        ("output layer: the rest", ()),
    ),
}


def _parts(clocks: Clocks) -> tuple[TimedPart, ...]:
    """The parts in the order of a step; kernels that no kind names belong to the last one."""
    result = []
    for component in ("encoder", "decoder", "output", "search", "schedule", "states", "loop"):
        kernels = {kernel: work for (part, kernel), work in clocks.kernels.items() if part == component}
        seconds = clocks.seconds[component]
        for name, members in KINDS.get(component, ((component, ()),)):
            mine = {kernel: kernels.pop(kernel) for kernel in tuple(kernels) if kernel in members or not members}
            calls, took, size, operations = (sum(column) for column in zip([0, 0, 0, 0], *mine.values(), strict=True))
            products: Counter[str] = Counter()
            for kernel in mine.keys() & PRODUCTS.keys():
                products[PRODUCTS[kernel]] += mine[kernel][3]
            spent = took / 1e9 if members else seconds
            seconds -= spent
            calls = calls or clocks.calls[component]
            result.append(TimedPart(name, max(spent, 0.0), calls, size, operations, dict(products)))
    return tuple(result)


def ceilings(size: int, seconds: float = 0.05) -> Ceilings:
    """Measure what one thread of this machine can do, in about a second; bandwidth for a set of `size` bytes."""
    block = np.ones(max(size // 4, 1 << 18), np.float32)
    rates: dict[str, float] = {}
    for kind in COMPUTE_TYPES:
        macs = _core.run_peak(kind, PEAK_STEPS)
        rates[kind] = macs / _fastest(lambda kind=kind: _core.run_peak(kind, PEAK_STEPS), seconds) / 1e9  # type: ignore[misc]
    rate = block.nbytes / _fastest(block.max, 4 * seconds) / 1e9  # nothing in NumPy reads faster
    return Ceilings(rate, block.nbytes / 2**20, rates)


def _fastest(call: Callable[[], object], seconds: float) -> float:
    """Of the calls that fit into `seconds`, the time of the fastest: a ceiling is what nothing can beat."""
    best, end = float("inf"), time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        call()
        best = min(best, time.perf_counter() - began)
    return best
