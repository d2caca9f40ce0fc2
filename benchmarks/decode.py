"""Words per second on one thread, native f32 against the PyTorch twin in one interleaved run; where a step's time goes.

Both contenders share vocabulary, search, schedule and output layer; the model is what differs. Outputs are compared
first: no time is printed when they disagree.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import torch

from benchmarks import machine, record
from benchmarks.interleave import interleave
from benchmarks.testset import DATA, german_english
from quickbeam import MachineOptions, Translator
from quickbeam.engine.decode import decode
from quickbeam.engine.load import Parts, find_model, load_parts
from quickbeam.evaluate.quality import quality
from quickbeam.models.door import Decoding
from quickbeam.options.decode import SearchOptions
from quickbeam.projections.door import RowProjection
from quickbeam.schedule.batches import BatchQueue, FixedBatches
from quickbeam.search.native_beam import NativeBeamSearch
from quickbeam.types import Floats, Ids, Request, TopK

BEAM = 5
EQUAL_SHARE = 0.98  # of the translations; the rest are near ties, where float rounding may choose another word
BLEU_DISTANCE = 0.3
ALL_TOGETHER = 1 << 30  # batch_tokens: whatever is given at once is one batch
T = TypeVar("T")


class DisagreementError(Exception):
    """Contenders do not say the same, so their times mean nothing."""


def speed(model: str, data: str, batch: int, sentences: int, rounds: int) -> dict[str, Any]:
    """Time `batch` sentences at a time, beam 5, one thread; returns and records words/s, ratios and BLEU."""
    torch.set_num_threads(1)
    sources, references = german_english(data, sentences)
    translators = {b: Translator(model, machine=MachineOptions(backend=b)) for b in ("torch", "native")}
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))  # similar lengths together, for both
    batches = [order[start : start + batch] for start in range(0, len(order), batch)]

    def contender(translator: Translator) -> Callable[[], list[str]]:
        def run() -> list[str]:
            texts = [""] * len(sources)
            for indices in batches:
                given = [sources[i] for i in indices]
                for i, found in zip(
                    indices, translator.translate(given, beam_size=BEAM, batch_tokens=ALL_TOGETHER), strict=True
                ):
                    texts[i] = found.text
            return texts

        return run

    scores: dict[str, Any] = {}

    def check(outputs: dict[str, list[str]]) -> None:
        same = sum(a == b for a, b in zip(outputs["torch"], outputs["native"], strict=True)) / len(sources)
        scores["same_translations"] = round(same, 4)
        scores["bleu"] = {name: round(quality(texts, references).bleu, 2) for name, texts in outputs.items()}
        if same < EQUAL_SHARE or abs(scores["bleu"]["torch"] - scores["bleu"]["native"]) > BLEU_DISTANCE:
            raise DisagreementError(f"native and torch disagree: {scores}")

    timings = interleave({n: contender(t) for n, t in translators.items()}, "torch", rounds, check)
    words = sum(len(source.split()) for source in sources)
    figures = scores | {
        "baseline": "torch",
        "contenders": {
            name: {k: round(v, 4) for k, v in dataclasses.asdict(timing).items()}
            | {"words_per_second": round(words / timing.median_s, 1)}
            for name, timing in timings.items()
        },
    }
    options = {"model": model, "beam_size": BEAM, "batch": batch, "sentences": len(sources), "rounds": rounds}
    return record.write("decode", figures, threads=1, options=options)


class Clock:
    """Measures calls, and keeps the seconds of each by name."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)

    def timed(self, name: str, function: Callable[..., T]) -> Callable[..., T]:
        """`function`, timed with as little as can be around it, for what is around it counts as bookkeeping."""
        note, now = self.seconds[name].append, time.perf_counter

        def run(*arguments: Any) -> T:
            began = now()
            result = function(*arguments)
            note(now() - began)
            return result

        return run


class TimedDecoding:
    """A decoding run whose native calls are timed by name."""

    def __init__(self, decoding: Decoding, clock: Clock) -> None:
        self.admit: Callable[[Sequence[Request]], Ids] = clock.timed("admit", decoding.admit)
        self.step: Callable[[Ids, Ids, Ids], tuple[Floats, Ids]] = clock.timed("step", decoding.step)
        self.retain: Callable[[Ids], None] = clock.timed("retain", decoding.retain)
        self.evict: Callable[[Ids], None] = clock.timed("evict", decoding.evict)


class TimedProjection:
    """A projection whose calls are timed: in the run, as what it opens."""

    def __init__(self, projection: RowProjection, clock: Clock) -> None:
        self.vocab_size, run = projection.vocab_size, projection.open()
        self.admit, self.evict = run.admit, run.evict
        self.topk: Callable[[Floats, int, Ids], TopK] = clock.timed("topk", run.topk)
        self.log_prob: Callable[[Floats, Ids, Ids], Floats] = clock.timed("log_prob", run.log_prob)

    def open(self) -> TimedProjection:
        return self


def step_shares(model: str, data: str, sentences: int, batch: int = 1) -> dict[str, Any]:
    """Where the time of a beam-5 step goes; what is no native call is Python's and NumPy's bookkeeping.

    The clocks' own time counts as bookkeeping, so its share is a little too high. Encoding (`admit`) is no part of
    a step. The floor is the time to read the weights of a step once at this machine's measured bandwidth.
    """
    parts = load_parts(find_model(model), MachineOptions())
    sources, _ = german_english(data, sentences)
    requests = sorted((_request(i, s, parts) for i, s in enumerate(sources)), key=lambda request: len(request.source))
    _decode_in_batches(parts, requests[:10], batch, Clock())  # warm
    clock = Clock()
    began = time.perf_counter()
    _decode_in_batches(parts, requests, batch, clock)
    seconds = {name: sum(each) for name, each in clock.seconds.items()}
    total = time.perf_counter() - began - seconds.pop("admit")
    steps = len(clock.seconds["step"])
    outside = total - sum(seconds.values())
    figures = {
        "steps": steps,
        "step_ms": round(1e3 * total / steps, 4),
        "outside_native_us": round(1e6 * outside / steps, 1),
        "outside_native_share": round(outside / total, 4),
        "shares": {name: round(share / total, 4) for name, share in seconds.items()},
        **_floor(parts, total / steps),
    }
    options = {"model": model, "beam_size": BEAM, "batch": batch, "sentences": len(sources)}
    return record.write("step", figures, threads=1, options=options)


def _request(index: int, source: str, parts: Parts) -> Request:
    return Request(index, np.array([*parts.source.encode(source), parts.model.eos_id], np.int32))


def _decode_in_batches(parts: Parts, requests: Sequence[Request], batch: int, clock: Clock) -> None:
    run, projection = TimedDecoding(parts.model.open(), clock), TimedProjection(parts.projection, clock)
    ids = (parts.model.bos_id, parts.model.eos_id, projection.vocab_size)
    queue = BatchQueue([list(requests[start : start + batch]) for start in range(0, len(requests), batch)])
    for _ in decode(run, projection, NativeBeamSearch(SearchOptions(beam_size=BEAM), *ids), FixedBatches(queue)):
        pass


def _floor(parts: Parts, seconds: float) -> dict[str, Any]:
    """The output matrix's time at the measured bandwidth, and the step's as a multiple of it."""
    ceiling = machine.ceilings(1)
    if ceiling is None:
        return {"output_floor_ms": None}
    size = parts.model.output()[0].nbytes
    floor = size / machine.bandwidth(ceiling, size / 2**20) / 1e9
    return {"output_floor_ms": round(1e3 * floor, 4), "times_output_floor": round(seconds / floor, 2)}


def describe(line: dict[str, Any]) -> str:
    """One measurement of `speed`, for people."""
    options, contenders = line["options"], line["contenders"]
    each = "; ".join(
        f"{name} {figures['words_per_second']:.0f} words/s (x{figures['ratio']:.2f}, "
        f"{figures['least_ratio']:.2f}-{figures['most_ratio']:.2f}; BLEU {line['bleu'][name]:.2f})"
        for name, figures in contenders.items()
    )
    return f"batch {options['batch']}, beam {options['beam_size']}, {options['sentences']} sentences: {each}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=DATA, help="folder of the text")
    parser.add_argument("--model", default="de-en", help="a model folder or a bundled name")
    parser.add_argument("--sentences", type=int, default=320, help="sentences of the test set")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each contender")
    arguments = parser.parse_args()
    for batch in (1, 32):
        found = speed(arguments.model, arguments.data, batch, arguments.sentences, arguments.rounds)
        print(describe(found), flush=True)
    shares = step_shares(arguments.model, arguments.data, arguments.sentences)
    outside = f"{shares['outside_native_share']:.1%} of it outside native calls"
    print(f"a step of batch 1, beam {BEAM}: {shares['step_ms']:.3f} ms, {outside}")
    print("  " + ", ".join(f"{name} {share:.1%}" for name, share in shares["shares"].items()))
    print(f"  output layer at the bandwidth ceiling: {shares['output_floor_ms']} ms")


if __name__ == "__main__":
    main()
