"""`fit_fallback_test`: a model with a shortlist, and text, in; the fallback test of its shortlist out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from sharpbeam.decoding.languages import Direction
from sharpbeam.decoding.loading import LoadedModel, find_model, load_model
from sharpbeam.errors import InputError
from sharpbeam.fit.preview.job import BEAM
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.screen.collect import Collector, Records
from sharpbeam.fit.shortlist.fallback_test import FallbackMeasure, FallbackRows, calibrated, fit_network, measure_test
from sharpbeam.fit.texts import texts_or_sample
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.output_layers.shortlist import Shortlist, ShortlistTest
from sharpbeam.types import Floats, Ids, Request

VECTORS = 60_000
GREEDY = 3  # one in this many is of greedy search, whose hypotheses a beam's seldom are
HELD_OUT = 3  # one sentence in this many is not fitted on
TOP_K = 2 * BEAM


@dataclass(frozen=True)
class FallbackTestFit:
    """The outcome of a fit."""

    folder: Path  # the model's, which the test was written to
    test: ShortlistTest
    measure: FallbackMeasure  # on rows of a beam of 5 over held-out sentences

    def summary(self) -> str:
        """The outcome for people."""
        m = self.measure
        return (
            f"{self.folder}: of {m.rows} rows of a beam over held-out sentences, {m.alone:.2%} have all tokens that "
            f"matter in the shortlist, {m.fidelity:.3%} with its fallback test (at least {m.bound:.2%} with 95% "
            f"confidence); {m.fallback:.1%} fall back to the proven preview, or to a scan."
        )


def fit_fallback_test(
    model: str | Path,
    text: str | Path | Sequence[str | Path],
    *,
    fidelity: float,
    vectors: int = VECTORS,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Listener | None = None,
) -> FallbackTestFit:
    """Fit the fallback test of a model's shortlist, which the layer uses from then on.

    Rows that may lack a token that matters to the search fall back to the proven preview, or to a scan. `fidelity` is
    the share of rows that have all that matter then, or fall back: its 95% confidence bound on held-out sentences.
    `text` names source sentences as in `fit_preview`. Takes a minute or two.

    Raises OptionError for options that do not fit, ModelError for a model that cannot be read or has no shortlist,
    InputError for text that cannot be read and if the fidelity is not reached (nothing is written then), OutputError
    for a folder that cannot be written to.
    """
    require(0 < fidelity < 1, "fidelity", fidelity, "between 0 and 1")
    require(vectors >= 3000, "vectors", vectors, "3000 or more")
    given = [str(one) for one in ([text] if isinstance(text, str | Path) else text)]
    require(bool(given), "text", given, "given: the fallback test is fitted to real text")
    folder, report = find_model(str(model)), Reporter(progress)
    loaded = load_model(folder, machine, "translation")
    weight, bias = loaded.model.output()
    artifacts, shortlist = loaded.artifacts, loaded.artifacts.read("shortlist")
    loaded = replace(loaded, exact=ScanLayer.build(weight, bias, machine.isa))  # the same tokens, sooner
    texts = texts_or_sample(loaded, given)
    parts = list[FallbackRows]()
    for beam_size, share in ((1, 1 / GREEDY), (BEAM, 1 - 1 / GREEDY)):
        count = -(-int(share * vectors) // len(texts))
        for direction, lines in texts:
            with report.stage("collecting", count, "vectors") as advance:
                rows = rows_of(loaded, shortlist, lines, beam_size, direction, count, advance)
            first = int(parts[-1].sentence[-1]) + 1 if parts else 0
            parts.append(replace(rows, sentence=rows.sentence + first))
    names = FallbackRows.__dataclass_fields__
    rows = FallbackRows(*(np.concatenate([getattr(one, name) for one in parts]) for name in names))
    held = rows.sentence % HELD_OUT == 0
    report.note(f"fitting to {int((~held).sum())} hidden vectors")
    beam = held & (rows.sentence > parts[len(texts) - 1].sentence[-1])
    test = calibrated(fit_network(rows.chosen(~held)), rows.chosen(beam), fidelity)
    measure = measure_test(test, rows.chosen(beam))
    if measure.bound < fidelity:
        raise InputError(
            f"fidelity is {fidelity}; on {measure.rows} rows of held-out text it is at least {measure.bound:.5f}. "
            "Nothing was written; give more --text, or a lower --fidelity."
        )
    test = replace(test, fidelity=measure.bound)
    artifacts.save("shortlist_test", test, {"measured": asdict(measure), "vectors": len(held)})
    return FallbackTestFit(folder, test, measure)


def rows_of(
    loaded: LoadedModel,
    shortlist: Shortlist,
    lines: Sequence[str],
    beam_size: int,
    direction: Direction,
    count: int,
    advance: Callable[[int], None],
) -> FallbackRows:
    """At most `count` rows of a search over source sentences `lines`."""
    with tempfile.TemporaryDirectory(prefix="sharpbeam-") as work:
        collector = Collector(loaded, Path(work) / "rows", beam_size, TOP_K, loaded.machine.workers, False, direction)
        found = collector.collect(lines, {}, count, lambda _: None)
        records = found.read(lambda sentence: np.ones(len(sentence), np.bool_))[:count]
        requests = collector.requests([line for line in dict.fromkeys(lines) if line.strip()])
    return _looked_at(records, requests, shortlist, *loaded.model.output(), beam_size, advance)


def _looked_at(
    records: Records,
    requests: Sequence[Request],
    shortlist: Shortlist,
    weight: Floats,
    bias: Floats,
    beam_size: int,
    advance: Callable[[int], None],
) -> FallbackRows:
    """All logits of `records`, in and outside of their requests' sets."""
    sentence: Ids = np.ascontiguousarray(records["sentence"])
    hidden = np.ascontiguousarray(records["hidden"])
    floor = records["floor"] if beam_size > 1 else np.full(len(hidden), -np.inf, np.float32)
    best, inside, outside, most = (np.empty(len(hidden), np.float32) for _ in range(4))
    bounds = [*np.flatnonzero(np.r_[True, sentence[1:] != sentence[:-1]]).tolist(), len(sentence)]
    for first, last in pairwise(bounds):
        logits = hidden[first:last] @ weight.T
        logits += bias
        chosen = shortlist.tokens(np.asarray(requests[sentence[first]].source))
        own = logits[:, chosen]
        logits[:, chosen] = -np.inf
        best[first:last], most[first:last] = own.max(axis=1), logits.max(axis=1)
        inside[first:last], outside[first:last] = _log_sums(own), _log_sums(logits)
        advance(last - first)
    bar = np.maximum(np.logaddexp(inside, outside) + floor, best if beam_size == 1 else -np.inf).astype(np.float32)
    finite = np.isfinite(outside) & np.isfinite(bar)  # a set of all tokens has none outside
    rows = FallbackRows(hidden, sentence, best, inside, outside, bar, most >= bar)
    return rows.chosen(finite)


def _log_sums(logits: Floats) -> Floats:
    """Log of the sum of exp of each row; overwrites `logits` [n, m]."""
    top = logits.max(axis=1, keepdims=True)
    logits -= top
    np.exp(logits, out=logits)
    sums: Floats = top[:, 0] + np.log(logits.sum(axis=1))
    return sums
