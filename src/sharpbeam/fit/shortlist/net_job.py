"""`fit_net`: a model folder with a shortlist in, and text if there is any; the shortlist's safety net out."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from sharpbeam.decoding.languages import Direction
from sharpbeam.decoding.loading import LoadedModel, find_model, load_model, shortlist_identity
from sharpbeam.fit.low_bit_job import BEAM
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.screen.collect import Collector, Records
from sharpbeam.fit.shortlist.net import NetMeasure, NetRows, calibrated, fit_network, measure_net
from sharpbeam.fit.texts import texts_or_made_up
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.output_layers.fitted import Net, Shortlist
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.storage.nets import NET, save_net
from sharpbeam.storage.shortlists import read_shortlist
from sharpbeam.types import Floats, Ids, Request

FIDELITY = 0.999
VECTORS = 60_000
GREEDY = 3  # one in so many is of greedy search, whose hypotheses a beam's seldom are
HELD_OUT = 3  # every so many-th sentence is not fitted on
MADE_UP = 1500  # sentences where there is no text
TOP_K = 2 * BEAM


@dataclass(frozen=True)
class NetFit:
    """The outcome of a fit."""

    folder: Path  # the model's, which the net was written to
    net: Net
    fidelity: float  # that was asked for
    measure: NetMeasure  # on rows of a beam of 5 over held-out sentences
    made_up: bool  # whether the sentences were made up

    def summary(self) -> str:
        """For people."""
        found, text = self.measure, "made-up sentences" if self.made_up else "the text"
        return (
            f"{self.folder / NET.facts}: of {found.rows} rows of a beam over held-out sentences of {text}, "
            f"{found.alone:.2%} have all tokens that matter in the shortlist, {found.fidelity:.3%} with the net (at "
            f"least {found.bound:.2%}, asked {self.fidelity:.2%}); {found.fallback:.1%} fall back to the proven layer."
        )


def fit_net(
    model: str | Path,
    text: str | Path | Sequence[str | Path] = (),
    *,
    fidelity: float = FIDELITY,
    vectors: int = VECTORS,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Listener | None = None,
) -> NetFit:
    """Fit the safety net of a model's shortlist, for `output_layer="shortlist-net"`.

    Rows that may lack a token that matters to the search fall back to the proven layer. `fidelity` is the share of rows
    that have all that matter then, or fall back: its 95% confidence bound on held-out sentences. `text` names source
    sentences as in `fit_preview`; without, they are made up, of which a shortlist lacks much more than of real ones, so
    that more rows fall back than need to. Takes a minute or two.

    Raises OptionError for options that do not fit, ModelError for a model that cannot be read or has no shortlist,
    InputError for text that cannot be read, and OutputError for a folder that cannot be written to.
    """
    require(0 < fidelity < 1, "fidelity", fidelity, "between 0 and 1")
    require(vectors >= 3000, "vectors", vectors, "3000 or more")
    given = [str(one) for one in ([text] if isinstance(text, str | Path) else text)]
    folder, report = find_model(str(model)), Reporter(progress)
    loaded = load_model(folder, machine, "translation")
    weight, bias = loaded.model.output()
    shortlist = read_shortlist(folder, shortlist_identity(loaded), len(loaded.source), len(bias))
    loaded = replace(loaded, exact=ScanLayer.build(weight, bias, machine.isa))  # the same tokens, sooner
    texts = texts_or_made_up(loaded, given, MADE_UP)
    parts = list[NetRows]()
    for beam_size, share in ((1, 1 / GREEDY), (BEAM, 1 - 1 / GREEDY)):
        wanted = -(-int(share * vectors) // len(texts))
        for direction, lines in texts:
            with report.stage("collecting", wanted, "vectors") as advance:
                rows = rows_of(loaded, shortlist, lines, beam_size, direction, wanted, advance)
            first = int(parts[-1].sentence[-1]) + 1 if parts else 0
            parts.append(replace(rows, sentence=rows.sentence + first))
    rows = NetRows(*(np.concatenate([getattr(one, name) for one in parts]) for name in NetRows.__dataclass_fields__))
    held = rows.sentence % HELD_OUT == 0
    report.note(f"fitting to {int((~held).sum())} hidden vectors")
    beam = held & (rows.sentence > parts[len(texts) - 1].sentence[-1])
    net = calibrated(fit_network(rows.chosen(~held)), rows.chosen(beam), fidelity)
    measure = measure_net(net, rows.chosen(beam))
    facts = {"fidelity": fidelity, "measured": asdict(measure), "vectors": len(held), "made_up": not given}
    save_net(folder, net, weight, bias, facts)
    return NetFit(folder, net, fidelity, measure, not given)


def rows_of(
    loaded: LoadedModel,
    shortlist: Shortlist,
    lines: Sequence[str],
    beam_size: int,
    direction: Direction,
    wanted: int,
    advance: Callable[[int], None],
) -> NetRows:
    """At most `wanted` rows of a search over source sentences `lines`."""
    with tempfile.TemporaryDirectory(prefix="sharpbeam-") as work:
        collector = Collector(loaded, Path(work) / "rows", beam_size, TOP_K, loaded.machine.workers, False, direction)
        found = collector.collect(lines, {}, wanted, lambda _: None)
        records = found.read(lambda sentence: np.ones(len(sentence), np.bool_))[:wanted]
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
) -> NetRows:
    """All logits of `records`, in and outside of their requests' sets."""
    sentence: Ids = np.ascontiguousarray(records["sentence"])
    hidden = np.ascontiguousarray(records["hidden"])
    floor = records["floor"] if beam_size > 1 else np.full(len(hidden), -np.inf, np.float32)
    best, inside, outside, most = (np.empty(len(hidden), np.float32) for _ in range(4))
    bounds = [*np.flatnonzero(np.r_[True, sentence[1:] != sentence[:-1]]).tolist(), len(sentence)]
    for first, last in pairwise(bounds):
        logits = hidden[first:last] @ weight.T
        logits += bias
        chosen = shortlist.words(np.asarray(requests[sentence[first]].source))
        own = logits[:, chosen]
        logits[:, chosen] = -np.inf
        best[first:last], most[first:last] = own.max(axis=1), logits.max(axis=1)
        inside[first:last], outside[first:last] = _log_sums(own), _log_sums(logits)
        advance(last - first)
    bar = np.maximum(np.logaddexp(inside, outside) + floor, best if beam_size == 1 else -np.inf).astype(np.float32)
    finite = np.isfinite(outside) & np.isfinite(bar)  # a set of all tokens has none outside
    rows = NetRows(hidden, sentence, best, inside, outside, bar, most >= bar)
    return rows.chosen(finite)


def _log_sums(logits: Floats) -> Floats:
    """Log of the sum of exp of each row; overwrites `logits` [n, m]."""
    top = logits.max(axis=1, keepdims=True)
    logits -= top
    np.exp(logits, out=logits)
    found: Floats = top[:, 0] + np.log(logits.sum(axis=1))
    return found
