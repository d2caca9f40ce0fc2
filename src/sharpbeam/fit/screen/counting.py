"""Counting beyond a stored sample: text is decoded once, and of its vectors only a tally's counters stay.

About once a minute they are written and renamed, so a run that was killed resumes where it was, with the same result. A
count of more vectors begins where one of fewer ended.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from sharpbeam.errors import InputError
from sharpbeam.fit import collect
from sharpbeam.fit.collect import Collection, Collector, distinct_lines
from sharpbeam.fit.progress import Reporter
from sharpbeam.fit.screen.clusters import Tally
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.storage.atomic import replacing_file

SAVED_SECONDS = 60.0  # between two writes
FIELDS = ("weight", "bias", "rows", "pair", "number")  # of a tally


@dataclass(frozen=True)
class Source:
    """A text, and the sample that was collected from its beginning."""

    collector: Collector
    lines: Iterable[str]  # all of them
    sample: Collection


def count_more(
    sources: Sequence[Source], tallies: Sequence[Tally], identity: object, vectors: int, report: Reporter
) -> int:
    """Add to `tallies`, which have the samples, up to `vectors` in all or the texts' end; the number there is.

    The samples count too, an equal number of each text. What was kept for clusters of this `identity` replaces the
    tallies, clusters too: these may differ by a bit from run to run. The search has the scan for an output layer: its
    best tokens are the exact layer's in half the time, and of two nearly equal hypotheses the other may live on. Raises
    InputError for what was kept and cannot be read.
    """
    collectors, share = [source.collector for source in sources], -(-vectors // len(sources))
    key = repr((identity, [(collector.folder / collect.IDENTITY).read_text() for collector in collectors]))
    path = collectors[0].folder / f"counts-{hashlib.sha256(key.encode()).hexdigest()[:12]}-{vectors}.safetensors"
    done = np.array([(len(s.sample.parts) * collect.LINES, len(s.sample)) for s in sources], np.int64)
    done, saved = _resume(path, done, share, tallies), time.monotonic()
    scan = ScanLayer.build(*collectors[0].parts.model.output())
    with report.stage("counting", vectors, "vectors") as advance:
        advance(int(done[:, 1].sum()))
        for place, source in enumerate(sources):
            collector = replace(source.collector, parts=replace(source.collector.parts, exact=scan))
            lines = islice(distinct_lines(source.lines), int(done[place, 0]), None)
            while done[place, 1] < share and (chunk := list(islice(lines, collect.LINES))):
                records = collector.decode(chunk, 0)
                for tally in tallies:
                    tally.add(np.ascontiguousarray(records["hidden"]), records["token"])
                done[place] += len(chunk), len(records)
                advance(len(records))
                if time.monotonic() - saved >= SAVED_SECONDS:
                    _save(path, done, tallies)
                    saved = time.monotonic()
    _save(path, done, tallies)
    return int(done[:, 1].sum())


def _resume(path: Path, done: NDArray[np.int64], share: int, tallies: Sequence[Tally]) -> NDArray[np.int64]:
    """Lines and vectors done of each text [T, 2], by default `done`, with `tallies` as they were then."""
    for kept in sorted(path.parent.glob(f"{path.stem.rpartition('-')[0]}-*.safetensors")):
        try:
            state: dict[str, NDArray[Any]] = load_file(kept)
        except (OSError, SafetensorError) as error:
            raise InputError(f"{kept} cannot be read ({error}); remove it and run again.") from error
        number = state["done"]
        if number[:, 1].sum() >= done[:, 1].sum() and (kept == path or (number[:, 1] < share).all()):
            done = number
            for (i, tally), name in product(enumerate(tallies), FIELDS):
                setattr(tally, name, state[f"{i}.{name}"])
    return done


def _save(path: Path, done: NDArray[np.int64], tallies: Sequence[Tally]) -> None:
    state = {f"{i}.{name}": getattr(tally, name) for (i, tally), name in product(enumerate(tallies), FIELDS)}
    with replacing_file(path) as staging:
        save_file({"done": done, **state}, staging)
