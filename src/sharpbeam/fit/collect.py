"""Hidden vectors of a model on unlabelled text, with the exact layer's own top k (L2S section 3, CVP section 2.2).

A translation model decodes the text by beam search; a language model reads it. The text is taken in parts of `LINES`
different lines. Each part becomes one file, written and renamed, so a run that was killed resumes with the first
part that is missing, and ends with the same bytes.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from sharpbeam._core import LayerRun
from sharpbeam.decoding.forced import force
from sharpbeam.decoding.languages import Direction
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.loop import decode
from sharpbeam.decoding.workers import run_workers
from sharpbeam.errors import InputError
from sharpbeam.options.decode import SearchOptions
from sharpbeam.options.schema import require
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun
from sharpbeam.output_layers.suppressed import without
from sharpbeam.scheduling.batches import FixedBatches
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.interface import Forward
from sharpbeam.storage.atomic import replacing_file, write_text
from sharpbeam.types import Floats, Ids, Prefix, Request, Rows, StepResult, TopK

LINES = 512  # lines of one part
TOGETHER = 8  # lines that a language model reads as one text: `sentence` numbers these
BATCH_TOKENS = 512  # source tokens that are decoded together
DEALT = 10  # what a sentence is for, its number modulo this says (`deal` in fit/screen/search.py)
LONGEST = 256  # source tokens; what is beyond is cut off
FACTOR = 2.5  # tokens for each source token, where the model names no number: a translation that is longer loops
FORMAT = 4  # of the parts
IDENTITY = "collection.json"
ROUNDING = 1e-3  # of a log probability that a search compares
T = TypeVar("T")
Records = NDArray[Any]  # of the dtype of `record_type`


def record_type(dim: int, top_k: int) -> np.dtype[Any]:
    """One row of one decoding step: sentence, step, hidden vector [D], exact top k, best first, and their log probs.

    `floor` is the least log probability that mattered to the search: of all tokens of the step, those below it changed
    nothing, whatever they were. It is -inf where a text is read.
    """
    fields = [("sentence", np.int32), ("step", np.int32), ("hidden", np.float32, dim)]
    return np.dtype([*fields, ("token", np.int32, top_k), ("log_prob", np.float32, top_k), ("floor", np.float32)])


@dataclass(frozen=True)
class Collection:
    """The steps of all parts, in the order of the text."""

    parts: list[Records]  # memory-mapped
    before: tuple[int, ...] = ()  # of each part, what its sentences' numbers are raised by; empty: nothing

    @classmethod
    def of(cls, collections: Sequence[Collection]) -> Collection:
        """Several of `Collector` in one: sentences numbered one after the other, and dealt as those of each are."""
        before, first = list[int](), 0
        for one in collections:
            before += [first] * len(one.parts)
            last = max((int(part["sentence"][-1]) for part in one.parts if len(part)), default=-1)
            first += (last // DEALT + 1) * DEALT
        return cls([part for one in collections for part in one.parts], tuple(before))

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def read(self, sentences: Callable[[Ids], NDArray[np.bool_]] | None = None) -> Records:
        """The steps of the sentences that `sentences` (numbers [n] -> mask [n]) selects, by default all, in memory."""
        parts = [np.array(part) if sentences is None else part[sentences(part["sentence"])] for part in self.parts]
        for part, raised in zip(parts, self.before, strict=False):
            part["sentence"] += raised
        return np.concatenate(parts)


class HiddenRecorder(OutputLayer):
    """An output layer in one run, which keeps the hidden vectors that it is asked about."""

    native: LayerRun | None = None
    reason = "the hidden vectors are recorded"

    def __init__(self, output_layer: OutputLayer, top_k: int) -> None:
        self._layer, self._top_k, self.vocab_size = output_layer.open(), top_k, output_layer.vocab_size
        self.admit, self.evict = self._layer.admit, self._layer.evict
        self.records: list[Records] = []

    def open(self) -> OutputLayerRun:
        """The recorder, which is of one run."""
        return self

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """As the output layer's, and kept."""
        top = self._layer.topk(hidden, max(k, self._top_k), request)
        records = np.empty(len(hidden), record_type(hidden.shape[1], self._top_k))
        records["sentence"], records["hidden"], records["step"] = request, hidden, 0
        records["token"], records["log_prob"] = top.token[:, : self._top_k], top.log_prob[:, : self._top_k]
        records["floor"] = -np.inf
        self.records.append(records)
        self.last = TopK(np.ascontiguousarray(top.log_prob[:, :k]), np.ascontiguousarray(top.token[:, :k]))
        return self.last

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        """Zeros: of a text that is read only the steps are recorded, not the scores."""
        self.topk(hidden, self._top_k, request)
        return np.zeros(len(hidden), np.float32)


class RecordedSearch(BeamSearch):
    """Beam search that adds to a recorder's last step what mattered."""

    def __init__(self, recorder: HiddenRecorder, options: SearchOptions, bos_id: int, eos_id: int) -> None:
        super().__init__(options, bos_id, eos_id, recorder.vocab_size)
        self._recorder, self._beam_size, self._end = recorder, options.beam_size, eos_id

    def step(self, rows: Rows, forward: Forward) -> StepResult:
        """As beam search's."""
        result = super().step(rows, forward)
        records = self._recorder.records[-1]
        records["step"], records["floor"] = rows.length, self._floor_of(rows, self._recorder.last) - ROUNDING
        return result

    def _floor_of(self, rows: Rows, top: TopK) -> Floats:
        """Least log probability [R] of a token to be among its request's best that may continue, or to be eos there.

        With K rows, 2K candidates are looked at, of which at most K end: so the K-th best that does not end bounds all
        that matters. Greedy search takes the best, eos or not.
        """
        total = rows.score[:, None] + top.log_prob
        if self._beam_size > 1:
            total[top.token == self._end] = -np.inf
        first = np.flatnonzero(np.r_[True, rows.request[1:] != rows.request[:-1]])
        floor = np.empty(len(rows), np.float32)
        for begin, end in zip(first, np.r_[first[1:], len(rows)], strict=True):
            scores = np.sort(total[begin:end], axis=None)[::-1]
            floor[begin:end] = scores[min(self._beam_size, len(scores)) - 1] - rows.score[begin:end]
        return floor


@dataclass(frozen=True)
class Collector:
    """Decodes text with the exact layer and writes what it sees to `folder`; a language model reads the text."""

    parts: LoadedModel
    folder: Path
    beam_size: int  # the vectors of all rows of the beam are kept
    top_k: int
    direction: Direction | None = None  # None: no languages are named

    @property
    def reads(self) -> bool:
        """Whether the text is read, not continued."""
        return self.parts.task == "language"

    def collect(
        self, lines: Iterable[str], identity: dict[str, Any], vectors: int, progress: Callable[[int], None]
    ) -> Collection:
        """Decode parts of `lines` until there are `vectors` steps or the lines end.

        Repeated and empty lines are left out: a sentence that is fitted on must not be among those held out.
        `identity` is what the lines and the answers depend on; `progress` is called with the number of new steps.
        Raises InputError where `folder` holds the parts of another run, or the text has no sentence.
        """
        device = self.parts.machine.device
        require(device == "cpu", "device", device, "cpu to fit: hidden vectors are recorded on the host")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._check_identity(
            identity | {"format": FORMAT, "beam_size": 0 if self.reads else self.beam_size, "top_k": self.top_k}
        )
        parts, distinct = list[Records](), distinct_lines(lines)
        while sum(map(len, parts)) < vectors and (chunk := list(islice(distinct, LINES))):
            path = self.folder / f"part-{len(parts):05d}.npy"
            if not path.exists():
                with replacing_file(path) as staging, staging.open("wb") as file:
                    np.save(file, self.decode(chunk, len(parts) * LINES), allow_pickle=False)
            try:
                parts.append(np.load(path, mmap_mode="r", allow_pickle=False))
            except (OSError, ValueError) as error:
                raise InputError(f"{path} cannot be read ({error}); remove it and run again.") from error
            progress(len(parts[-1]))
        if not parts:
            raise InputError("the text has no sentence to decode; give a --text file with one sentence a line.")
        return Collection(parts)

    def remove(self) -> None:
        """Remove the parts that `collect` wrote, counts of more, and the folder where nothing else is in it."""
        ours = ("part-*.npy", ".part-*", "counts-*", ".counts-*")
        for path in [*(path for name in ours for path in self.folder.glob(name)), self.folder / IDENTITY]:
            path.unlink(missing_ok=True)
        for folder in (self.folder, self.folder.parent):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()

    def decode(self, texts: Sequence[str], first: int) -> Records:
        """The steps of `texts`, sentence by sentence; `first` is the number of the first."""
        parts, recorders, targets = self.parts, list[HiddenRecorder](), dict[int, Ids]()
        if self.reads:
            targets = self._targets(texts, first)
            before = np.array([parts.model.eos_id], np.int32)
            requests = [Request(index, before) for index in targets]
        else:
            requests = self.requests(texts, first)
        queue = RequestQueue(requests, BATCH_TOKENS // 8 if self.reads else BATCH_TOKENS)

        def work() -> Iterator[object]:
            layer = without(parts.exact, parts.suppressed)  # as in `translate`
            recorder, run = HiddenRecorder(layer, self.top_k), parts.model.open()
            recorders.append(recorder)
            if self.reads:
                return force(run, recorder, targets, parts.model.bos_id, queue)
            longest = self.within(SearchOptions.max_length)
            options = SearchOptions(beam_size=self.beam_size, return_scores=True, max_length=longest)
            search = RecordedSearch(recorder, options, parts.model.bos_id, parts.model.eos_id)
            return decode(run, recorder, search, FixedBatches(queue))

        for _ in run_workers(work, queue.close, queue.batches(parts.machine.workers)):
            pass
        # All steps of a sentence are one recorder's, so their order does not depend on the number of threads.
        records = np.concatenate([step for recorder in recorders for step in recorder.records])
        records = records[np.argsort(records["sentence"], kind="stable")]
        if forced := len(self._way.prefix):  # what is forced, no output layer decides
            records = records[records["step"] >= forced]
        if self.reads:
            records["step"] = np.arange(len(records))
        return records

    @property
    def _way(self) -> Direction:
        return self.direction or Direction(after=self.parts.language_tags.end)

    def _targets(self, texts: Sequence[str], first: int) -> dict[int, Ids]:
        """Texts of TOGETHER lines, each line with its end, by number."""
        eos, encode = self.parts.model.eos_id, self.parts.target.encode
        lines = [[*encode(text), eos] for text in texts]
        groups = [lines[i : i + TOGETHER] for i in range(0, len(lines), TOGETHER)]
        return {first // TOGETHER + i: np.array(list(chain(*group)), np.int32) for i, group in enumerate(groups)}

    def requests(self, texts: Sequence[str], first: int = 0) -> list[Request]:
        """The requests of `texts`, numbered from `first` on."""
        to, encode = self._way, self.parts.source.encode
        tag = np.array(to.prefix, np.int32)
        prefix = Prefix(tag, np.zeros(len(tag), np.float32)) if len(tag) else None
        around = len(to.before) + len(to.after)
        most = self.within(LONGEST - 1 + around) - around
        factor = self.parts.options.search.max_length_factor or FACTOR
        sources = (np.array([*to.before, *encode(text)[:most], *to.after], np.int32) for text in texts)
        each = ((number, source, math.ceil(factor * len(source))) for number, source in enumerate(sources, first))
        return [Request(number, source, prefix, to.languages, max_length=longest) for number, source, longest in each]

    def within(self, length: int) -> int:
        """`length`, or as much of it as the model has positions for."""
        return min(length, self.parts.max_positions or length)

    def _check_identity(self, identity: dict[str, Any]) -> None:
        path, text = self.folder / IDENTITY, json.dumps(identity, indent=2, sort_keys=True) + "\n"
        if not path.exists():
            write_text(path, text)
        elif path.read_bytes() != text.encode():
            raise InputError(
                f"{self.folder} holds hidden vectors of another model, other text or other options (see {path.name} "
                "there); remove it or give another --work folder."
            )


def distinct(lines: Iterable[T], key: Callable[[T], int] = hash) -> Iterator[T]:
    """Lines, or pairs of them, each once; only keys are kept."""
    earlier = set[int]()
    for line in lines:
        if (own := key(line)) not in earlier:
            earlier.add(own)
            yield line


def distinct_lines(lines: Iterable[str]) -> Iterator[str]:
    """Lines that are not empty, each once, however they are spaced."""
    return distinct(filter(str.strip, lines), lambda line: hash(" ".join(line.split())))


def collect_rows(
    loaded: LoadedModel,
    lines: Iterable[str],
    count: int,
    beam_size: int,
    top_k: int,
    direction: Direction,
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[Collector, Records]:
    """At most `count` rows of a search over source sentences `lines`, in memory, and what collected them."""
    with tempfile.TemporaryDirectory(prefix="sharpbeam-") as work:
        collector = Collector(loaded, Path(work), beam_size, min(top_k, loaded.vocab_size), direction)
        return collector, collector.collect(lines, {}, count, advance).read()[:count]


def log_sum_exp(logits: Floats) -> Floats:
    """Of each row of `logits` [n, m], which are finite or -inf."""
    top = logits.max(axis=1)
    sums: Floats = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return sums


@dataclass(frozen=True)
class OutputMatrix:
    """The output layer that something is fitted for."""

    weight: Floats  # [V, D]
    bias: Floats  # [V]


@dataclass(frozen=True)
class Steps:
    """Recorded steps with what every setting of a screen needs of them, computed once."""

    records: Records  # [n]
    hidden: Floats  # [n, D], C-contiguous
    total: Floats  # [n] log Z of the exact layer

    @classmethod
    def of(cls, records: Records, output: OutputMatrix) -> Steps:
        """The steps `records` [n] of the layer `output`."""
        hidden, token = np.ascontiguousarray(records["hidden"]), records["token"][:, 0]
        logit = np.einsum("nd,nd->n", hidden, output.weight[token]) + output.bias[token]
        return cls(records, hidden, np.asarray(logit - records["log_prob"][:, 0], np.float32))

    def __len__(self) -> int:
        return len(self.records)

    def spread(self, most: int) -> Steps:
        """At most `most` of them, at equal distances."""
        if len(self) <= most:
            return self
        chosen = np.linspace(0, len(self) - 1, most).astype(np.int64)
        return Steps(self.records[chosen], self.hidden[chosen], self.total[chosen])
