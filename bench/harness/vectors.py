"""Hidden vectors of a model on real text, with the exact layer's k best: collected once, kept in build/bench/vectors.

Those of a translation model are of greedy search (L2S measures single steps); a language model reads the text. The
vectors to fit on, to choose on and to measure with come from the text's parts train, valid and test.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.harness import record
from bench.harness.cache import COLLECTING, stamp
from bench.papers.l2s.subjects import Subject
from sharpbeam.decoding.loading import LoadedModel, load_model
from sharpbeam.fit.collect import Collector
from sharpbeam.options.decode import MachineOptions
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.types import Floats, Ids, Request

K = 5
COLUMNS = 32  # places of a language model's text that are read side by side
SPREAD = 4  # times as many words as vectors are read over, where the text has them
COLD = 16  # words after a cold start whose vectors are not taken
KEPT = record.ROOT / "build" / "bench" / "vectors"
FLOATS = 60_000_000  # of the vectors to fit on: 300,000 where the width is 200,
LEAST = 150_000  # but so many vectors of a wide model
MOST_TRANSLATED = 300_000  # vectors; a translation takes longer than reading
HELD_OUT = 10_000  # vectors to choose on, and to measure with


@dataclass(frozen=True)
class Sample:
    """Hidden vectors [N, D], in random order, and the exact layer's K best words of each [N, K]."""

    hidden: Floats
    top: Ids

    def __len__(self) -> int:
        return len(self.hidden)

    def first(self, rows: int) -> Sample:
        """So many of them."""
        return self.split(rows)[0]

    def split(self, rows: int) -> tuple[Sample, Sample]:
        """So many of them, and the others."""
        return Sample(self.hidden[:rows], self.top[:rows]), Sample(self.hidden[rows:], self.top[rows:])


@dataclass(frozen=True)
class Layer:
    """An output matrix [V, D] with its bias [V], and vectors to fit on, to choose on and to measure with."""

    name: str
    weight: Floats
    bias: Floats
    eos_id: int
    fit: Sample
    choose: Sample
    test: Sample

    def restricted(self, vocab: int) -> Layer:
        """The same with the first `vocab` words only: the most frequent ones of a word vocabulary."""
        weight, bias = np.ascontiguousarray(self.weight[:vocab]), np.ascontiguousarray(self.bias[:vocab])
        scan = ScanLayer.build(weight, bias)
        parts = (Sample(part.hidden, scan.topk(part.hidden, K).token) for part in (self.fit, self.choose, self.test))
        return Layer(self.name, weight, bias, self.eos_id, *parts)


def collect_layer(subject: Subject, folder: Path, data: str, share: float = 1.0) -> Layer:
    """The layer of the model in `folder`; `share` of the usual number of vectors. Kept files are used again."""
    parts = load_model(folder, MachineOptions(), "translation" if subject.columns else "language")
    weight, bias = parts.model.output()
    parts = dataclasses.replace(parts, exact=ScanLayer.build(weight, bias))  # the exact top k, sooner
    fitting = max(FLOATS // weight.shape[1], LEAST) if subject.columns is None else MOST_TRANSLATED
    counts = {"fit": fitting, "choose": HELD_OUT, "test": HELD_OUT}
    digest = stamp(folder, *(Path(data) / str(getattr(subject, part)) for part in counts), code=COLLECTING)
    samples = []
    for part, most in counts.items():
        count = max(1000, round(most * share))
        samples.append(_kept(KEPT / f"{subject.name}-{digest}-{part}-{count}.npy", subject, parts, data, part, count))
    return Layer(subject.name, weight, bias, parts.model.eos_id, *samples)


def _kept(path: Path, subject: Subject, parts: LoadedModel, data: str, part: str, count: int) -> Sample:
    """The sample in `path` and its neighbor, collected where they are not there."""
    best = path.with_suffix(".top.npy")
    if not (path.is_file() and best.is_file()):
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = subject.lines(data, part)
        sample = (_translate if subject.columns else _read)(parts, lines, count)
        for place, array in ((best, sample.top), (path, sample.hidden)):
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as staging:
                np.save(staging, array, allow_pickle=False)
            os.replace(staging.name, place)
    return Sample(np.load(path, allow_pickle=False), np.load(best, allow_pickle=False))


def _translate(parts: LoadedModel, lines: Iterator[str], count: int) -> Sample:
    """The steps of greedy translations."""
    with tempfile.TemporaryDirectory() as work:
        collection = Collector(parts, Path(work), 1, K).collect(lines, {}, count, lambda _: None)
        records = collection.read()
    order = np.random.default_rng(1).permutation(len(records))[:count]
    return Sample(np.ascontiguousarray(records["hidden"][order]), np.ascontiguousarray(records["token"][order]))


def _read(parts: LoadedModel, lines: Iterator[str], count: int) -> Sample:
    """The steps of reading text."""
    every, _ = read_text(parts, lines, count)
    every = every[np.random.default_rng(1).permutation(len(every))[:count]]
    scan = parts.exact
    assert isinstance(scan, ScanLayer)
    return Sample(every, np.concatenate([scan.topk(block, K).token for block in np.array_split(every, 64)]))


def read_text(parts: LoadedModel, lines: Iterator[str], count: int, spread: int = SPREAD) -> tuple[Floats, Ids]:
    """`count` hidden vectors [n, D] or a few more, and the words [n] that follow: text read at `COLUMNS` places.

    The places are spread over `spread` times as many words, where the text has them.
    """
    eos, steps = parts.model.eos_id, -(-count // COLUMNS)
    tokens: list[int] = []
    for line in lines:
        tokens += [*parts.source.encode(line), eos]
        if len(tokens) >= spread * count:
            break
    stream = np.array(tokens, np.int32)
    steps = min(steps, len(stream) // COLUMNS - COLD - 1)
    start = np.arange(COLUMNS) * (len(stream) // COLUMNS)
    run, request = parts.model.open(), np.arange(COLUMNS, dtype=np.int32)
    state = run.admit([Request(i, np.array([eos], np.int32)) for i in range(COLUMNS)])
    hidden, word = [], []
    for step in range(COLD + steps):
        rows, state = run.step(request, state, stream[start + step])
        run.retain(state)
        if step >= COLD:
            hidden.append(rows)
            word.append(stream[start + step + 1])
    return np.concatenate(hidden), np.concatenate(word)
