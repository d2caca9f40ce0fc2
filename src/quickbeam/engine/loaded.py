"""Decoding runs of one loaded model: requests in, hypotheses or log probabilities out, by several workers."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing

from quickbeam.engine.decode import decode
from quickbeam.engine.forced import force
from quickbeam.engine.load import Parts
from quickbeam.engine.translation import Answer
from quickbeam.engine.workers import run_workers
from quickbeam.options.decode import DecodeOptions
from quickbeam.schedule.batches import BatchQueue, FixedBatches, pack
from quickbeam.search.beam import BeamSearch
from quickbeam.types import Floats, Hypothesis, Ids, Request


class Runs:
    """What the doors for people share. Its methods may be called from several threads at once."""

    def __init__(self, parts: Parts, threads: int) -> None:
        """`parts` are shared by at most `threads` workers."""
        self.parts, self._threads = parts, threads

    def search(self, choices: DecodeOptions) -> BeamSearch:
        """A fresh search; raises OptionError where the choices do not fit the model."""
        parts = self.parts
        return BeamSearch(choices.search, parts.model.bos_id, parts.model.eos_id, parts.projection.vocab_size)

    def decode(
        self, requests: list[Request], choices: DecodeOptions
    ) -> Generator[tuple[int, list[Hypothesis]], None, None]:
        """Yield (request index, its hypotheses, best first) as they are done; closing it stops the work."""
        queue = BatchQueue(pack(requests, choices.schedule.batch_tokens))
        parts = self.parts

        def work() -> Iterator[tuple[int, list[Hypothesis]]]:
            return decode(parts.model.open(), parts.projection, self.search(choices), FixedBatches(queue))

        with closing(run_workers(work, queue, min(self._threads, len(queue)))) as results:
            yield from results

    def force(self, requests: list[Request], targets: Mapping[int, Ids], choices: DecodeOptions) -> dict[int, Floats]:
        """Log probability of each target token [T], by request index."""
        queue = BatchQueue(pack(requests, choices.schedule.batch_tokens))
        parts = self.parts

        def work() -> Iterator[tuple[int, Floats]]:
            return force(parts.model.open(), parts.projection, targets, parts.model.bos_id, queue)

        return dict(run_workers(work, queue, min(self._threads, len(queue))))

    def answer(self, hypothesis: Hypothesis) -> Answer:
        """A hypothesis as text."""
        vocabulary, ids = self.parts.target, hypothesis.tokens
        pieces = tuple(vocabulary.piece(token) for token in ids)
        return Answer(vocabulary.decode(ids), hypothesis.score, hypothesis.log_prob, pieces, hypothesis.token_log_probs)

    def scored(self, text: str, tokens: Ids, log_probs: Floats, penalty: float) -> Answer:
        """A given text, whose tokens [T] end in eos, with the log probability of each one."""
        scores = tuple(log_probs.tolist())
        pieces = tuple(self.parts.target.piece(token) for token in tokens[:-1].tolist())
        return Answer(text, sum(scores) / len(scores) ** penalty, sum(scores), pieces, scores)
