"""The fallback test of a shortlist, fitted to hidden vectors: a network of one layer, by Adam, and its threshold.

The network predicts the log of the mass outside a row's set as a normal distribution: its mean and the log of its
deviation (csrc/output/shortlist_outside.h), by their likelihood on rows of which all logits were computed. The
threshold is the least for which the rows of held-out sentences have all tokens that matter, or fall back, to the
fidelity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sharpbeam.decoding.languages import Direction
from sharpbeam.decoding.loading import LoadedModel, folder_to_fill, load_model
from sharpbeam.errors import InputError, needs_extra
from sharpbeam.fit.bound import design_effect, lower_bound
from sharpbeam.fit.collect import collect_rows, distinct_lines, log_sum_exp
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.texts import Texts, texts_or_sample
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.output_layers.shortlist import Shortlist, ShortlistTest
from sharpbeam.types import Floats, Ids

VECTORS = 60_000
GREEDY = 3  # one in this many is of greedy search, whose hypotheses a beam's seldom are
HELD_OUT = 3  # one sentence in this many is not fitted on
BEAM, TOP_K = 5, 10  # the k best tokens of a row: a beam of 5 can use no more
UNITS = 64
EPOCHS = 8
BATCH = 256
RATE = 3e-3  # of Adam, at its highest
RISING = 0.2  # of the steps: the rate rises to its highest, and falls to 0 after them
DEVIATIONS = -3.0, 4.0  # least and largest log deviation, as in csrc/output/shortlist_outside.cpp
STEEPEST = 0.1  # gradient of one row's outputs: a few rows are far off
MOST_SHARE = 0.05  # outside: a normalizer that is wrong by more counts among near-equal hypotheses
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class FallbackRows:
    """Rows [n] of decoding steps, and what all logits say of their sets."""

    hidden: Floats  # [n, D]
    sentence: Ids  # [n]
    best: Floats  # [n] logit in the set
    inside: Floats  # [n] log of the mass of the set
    outside: Floats  # [n] log of the mass outside
    bar: Floats  # [n] the least logit that matters to the search
    miss: Bools  # [n] a token outside reaches it

    def select(self, mask: Bools) -> FallbackRows:
        """Those of `mask` [n]."""
        return FallbackRows(*(values[mask] for values in vars(self).values()))

    @staticmethod
    def joined(parts: Sequence[FallbackRows]) -> FallbackRows:
        """The rows of all parts, numbered so that a sentence of several parts is held out in all of them or in none."""
        parts = [part for part in parts if len(part.sentence)] or parts[:1]
        columns = {name: np.concatenate([vars(part)[name] for part in parts]) for name in vars(parts[0])}
        ends = np.cumsum([0, *(-(-(part.sentence[-1] + 1) // HELD_OUT) * HELD_OUT for part in parts[:-1])])
        columns["sentence"] += np.repeat(ends, [len(part.sentence) for part in parts]).astype(np.int32)
        return FallbackRows(**columns)

    @property
    def direct(self) -> Floats:
        """The inputs of the network next to hidden vectors, [n, 3]."""
        return np.stack([self.best, self.inside, np.ones_like(self.best)], axis=1)


@dataclass(frozen=True)
class FallbackMeasure:
    """Figures of a test on rows that it was not fitted on."""

    rows: int
    alone: float  # share of the rows that have all tokens that matter without it
    fidelity: float  # the same with it
    bound: float  # lower 95% confidence bound of it
    fallback: float  # share of the rows that fall back


@dataclass(frozen=True)
class FallbackTestFit:
    """The outcome of a fit."""

    folder: Path  # the model's, which the test was written to
    test: ShortlistTest
    measure: FallbackMeasure  # on rows of a beam of 5 over held-out sentences

    def summary(self) -> str:
        """The outcome, human-readable."""
        m = self.measure
        return (
            f"{self.folder}: of {m.rows} rows of a beam over held-out sentences, {m.alone:.2%} have all tokens that "
            f"matter in the shortlist, {m.fidelity:.3%} with its fallback test (at least {m.bound:.2%} with 95% "
            f"confidence); {m.fallback:.1%} fall back to the preview, or to a scan."
        )


def fit_fallback_test(
    model: str | Path,
    text: Texts,
    *,
    fidelity: float,
    vectors: int = VECTORS,
    new: tuple[Shortlist, Mapping[str, object]] | None = None,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Listener | None = None,
) -> FallbackTestFit:
    """Fit the fallback test of a model's shortlist, which the layer uses from then on.

    A `new` shortlist is written with it, and its facts; without one it is that of the model.

    Rows that may lack a token that matters to the search fall back to the preview, or to a scan. `fidelity` is
    the share of rows that have all that matter then, or fall back: its 95% confidence bound on held-out sentences.
    `text` names source sentences as in `fit_preview`. Takes a minute or two.

    Raises OptionError for options that do not fit, ModelError for a model that cannot be read or has no shortlist,
    InputError for text that cannot be read and if the fidelity is not reached (no test is written then), OutputError
    for a folder that cannot be written to.
    """
    require(0 < fidelity < 1, "fidelity", fidelity, "between 0 and 1")
    require(vectors >= 3000, "vectors", vectors, "3000 or more")
    require(bool(text), "text", text, "given: the fallback test is fitted to real text")
    with needs_extra("fitting a fallback test", "train"):
        import torch  # noqa: F401 (before vectors are collected)
    folder, report = folder_to_fill(str(model)), Reporter(progress)
    loaded = load_model(folder, machine, "translation")
    shortlist: Shortlist = new[0] if new else loaded.artifacts.read("shortlist")
    loaded = replace(loaded, exact=ScanLayer.build(*loaded.model.output(), machine.isa))  # the same tokens, sooner
    texts, parts = texts_or_sample(loaded, text), list[FallbackRows]()
    for beam_size, share in ((1, 1 / GREEDY), (BEAM, 1 - 1 / GREEDY)):
        count = -(-int(share * vectors) // len(texts))
        for direction, lines in texts:
            with report.stage("collecting", count, "vectors") as advance:
                parts.append(_collected(loaded, shortlist, lines, beam_size, direction, count, advance))
    rows = FallbackRows.joined(parts)
    held_out = rows.sentence % HELD_OUT == 0
    measured = held_out & (np.arange(len(held_out)) >= sum(len(part.sentence) for part in parts[: len(texts)]))  # beam
    if held_out.all() or not measured.any():
        raise InputError("the text is too short to fit and to measure a fallback test; give more --text.")
    report.note(f"fitting to {int((~held_out).sum())} hidden vectors")
    fresh = rows.select(measured)
    test = calibrated(fit_network(rows.select(~held_out)), fresh, fidelity)
    measure = measure_test(test, fresh)
    if measure.bound < fidelity:
        raise InputError(
            f"fidelity is {fidelity}; on {measure.rows} rows of held-out text it is at least {measure.bound:.5f}. "
            "No fallback test was written; give more --text, or a lower --fidelity."
        )
    test = replace(test, fidelity=measure.bound)
    if new:
        loaded.artifacts.save("shortlist", *new)
    loaded.artifacts.save("shortlist_test", test, {"measured": asdict(measure), "vectors": len(held_out)})
    return FallbackTestFit(folder, test, measure)


def _collected(
    loaded: LoadedModel,
    shortlist: Shortlist,
    lines: Iterable[str],
    beam_size: int,
    direction: Direction,
    count: int,
    advance: Callable[[int], None],
) -> FallbackRows:
    """At most `count` rows of a search over source sentences `lines`, with all logits in and outside of their sets."""
    collector, records = collect_rows(loaded, lines, count, beam_size, TOP_K, direction)
    sentence: Ids = np.ascontiguousarray(records["sentence"])
    requests = collector.requests(list(islice(distinct_lines(lines), int(sentence[-1]) + 1)))
    hidden, (weight, bias) = np.ascontiguousarray(records["hidden"]), loaded.model.output()
    floor = records["floor"] if beam_size > 1 else np.full(len(hidden), -np.inf, np.float32)
    best, inside, outside, most = (np.empty(len(hidden), np.float32) for _ in range(4))
    bounds = [*np.flatnonzero(np.r_[True, sentence[1:] != sentence[:-1]]).tolist(), len(sentence)]
    for first, last in pairwise(bounds):
        logits = hidden[first:last] @ weight.T
        logits += bias
        tokens = shortlist.tokens(np.asarray(requests[sentence[first]].source))
        own = logits[:, tokens]
        logits[:, tokens] = -np.inf
        best[first:last], most[first:last] = own.max(axis=1), logits.max(axis=1)
        inside[first:last], outside[first:last] = (log_sum_exp(each) for each in (own, logits))
        advance(last - first)
    bar = np.maximum(np.logaddexp(inside, outside) + floor, best if beam_size == 1 else -np.inf).astype(np.float32)
    rows = FallbackRows(hidden, sentence, best, inside, outside, bar, most >= bar)
    return rows.select(np.isfinite(outside) & np.isfinite(bar))  # a set of all tokens has none outside


def fit_network(rows: FallbackRows) -> ShortlistTest:
    """The network of largest likelihood, by Adam; its threshold is still to be set."""
    import torch

    draw = np.random.default_rng(0)
    mean, spread = rows.hidden.mean(axis=0), rows.hidden.std(axis=0) + np.float32(1e-6)
    x, direct = (rows.hidden - mean) / spread, rows.direct
    center, size = direct.mean(axis=0), direct.std(axis=0) + np.float32(1e-6)
    center[2], size[2] = 0.0, 1.0
    level, width = np.float32(rows.outside.mean()), x.shape[1]
    weights = [
        (draw.normal(size=(width, UNITS)) / np.sqrt(width)).astype(np.float32),
        np.zeros(UNITS, np.float32),
        (draw.normal(size=(UNITS, 2)) * 0.1 / np.sqrt(UNITS)).astype(np.float32),
        np.zeros((3, 2), np.float32),
    ]
    inner, bias, outer, straight = tensors = [torch.from_numpy(one).requires_grad_() for one in weights]
    data = [torch.from_numpy(one) for one in (x, (direct - center) / size, rows.outside - level)]
    batches = max(1, len(x) // BATCH)
    steps = EPOCHS * batches
    adam = torch.optim.Adam(tensors, RATE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        adam, lambda done: min((done + 1) / steps / RISING, (1 - (done + 1) / steps) / (1 - RISING))
    )
    for order in (draw.permutation(len(x)) for _ in range(EPOCHS)):
        for some in np.split(order[: batches * BATCH], batches) if len(x) >= BATCH else [order]:
            hidden, logits, target = (part[some] for part in data)
            outputs = torch.relu(hidden @ inner + bias) @ outer + logits @ straight
            outputs.register_hook(lambda gradient: gradient.clamp(-STEEPEST, STEEPEST))  # type: ignore[no-untyped-call]
            expected, free = outputs.T
            deviation = free + (free.clamp(*DEVIATIONS) - free).detach()
            off = (expected - target) * torch.exp(-deviation)
            adam.zero_grad()
            torch.autograd.backward((deviation + 0.5 * off * off).mean())
            adam.step()
            schedule.step()
    # Of hidden vectors and logits as they are; `tensors` share the memory of `weights`.
    units = np.ascontiguousarray((weights[0] / spread[:, None]).T)
    added = (weights[3] / size[:, None]).T
    added[:, 2] -= added[:, :2] @ center[:2]
    added[0, 2] += level
    outer_weight, added = np.ascontiguousarray(weights[2].T), np.ascontiguousarray(added, np.float32)
    return ShortlistTest(units, weights[1] - units @ mean, outer_weight, added, 0.0, MOST_SHARE)


def certainty(test: ShortlistTest, rows: FallbackRows) -> Floats:
    """How many deviations the bar of each row [n] is above what is expected outside: -inf where the normalizer asks."""
    units = np.maximum(rows.hidden @ test.inner.T + test.bias, 0)
    mean, deviation = (units @ test.outer.T + rows.direct @ test.direct.T).T
    deviations = (rows.bar - mean) / np.exp(np.clip(deviation, *DEVIATIONS))
    share = 1 / (1 + np.exp(np.clip(rows.inside - mean, -80, 80)))
    return np.where(share > test.most_share, -np.inf, deviations).astype(np.float32)


def calibrated(test: ShortlistTest, rows: FallbackRows, fidelity: float) -> ShortlistTest:
    """`test` with the least threshold whose fidelity on `rows` is at least `fidelity`, at 95% confidence."""
    sure = certainty(test, rows)
    missing = np.sort(sure[rows.miss & (sure > -np.inf)])  # the threshold is above all but the last `misses` of these
    effect = design_effect(rows.miss, rows.sentence)
    trials = len(sure) / effect
    misses = 0
    while misses < len(missing) and lower_bound(trials - (misses + 1) / effect, trials) >= fidelity:
        misses += 1
    at = len(missing) - misses - 1
    least = float(np.nextafter(missing[at], np.float32(np.inf))) if at >= 0 else float(np.float32(-1e30))
    return replace(test, threshold=least)


def measure_test(test: ShortlistTest, rows: FallbackRows) -> FallbackMeasure:
    """The test on `rows`."""
    falls = certainty(test, rows) < np.float32(test.threshold)
    wrong = rows.miss & ~falls
    trials = len(falls) / design_effect(rows.miss, rows.sentence)
    right = 1 - float(wrong.mean())
    bound = lower_bound(right * trials, trials)
    return FallbackMeasure(len(falls), 1 - float(rows.miss.mean()), right, bound, float(falls.mean()))
