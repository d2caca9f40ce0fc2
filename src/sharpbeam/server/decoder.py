"""The decoder of one request: its sentences go through the models of a route, with those of other requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from sharpbeam.contract.steps import Job
from sharpbeam.contract.terms import check_options, moved, term_steps
from sharpbeam.decoding.inputs import Forced
from sharpbeam.decoding.results import EMPTY, Translation
from sharpbeam.documents import DocumentTranslation
from sharpbeam.errors import RequestCancelledError, SharpbeamError
from sharpbeam.server.admission import Ticket
from sharpbeam.server.catalog import Hop
from sharpbeam.server.metrics import ServerMetrics
from sharpbeam.server.pool import Engine
from sharpbeam.server.refusals import Refused
from sharpbeam.server.worker import advance as next_jobs
from sharpbeam.server.workers import Advance
from sharpbeam.text.glossary import Glossary

BURST = 32  # tasks that begin before others have the event loop
Each = TypeVar("Each")
T = TypeVar("T")


@dataclass
class Decoder:
    """Decodes the sentences of one document."""

    engines: Mapping[str, Engine]
    route: tuple[Hop, ...]
    ticket: Ticket
    metrics: ServerMetrics
    options: dict[str, Any] = field(default_factory=dict)  # keywords of the last model of the route
    glossary: Glossary | None = None  # that of a route through a pivot, whose terms are found here
    remembers: bool = False
    # The first one of each sentence, what it has to begin with, and number of hypotheses, if it does.
    translations: dict[tuple[str, Forced | None, int | None], Translation] = field(default_factory=dict)

    @property
    def model(self) -> tuple[bool, Path]:
        """Whether sentences come with attention to the client's words, as a pivot's do not, and the model's folder."""
        engine = self.engines[self.route[0].model]
        return len(self.route) == 1 and engine.translator.loaded.attends, engine.translator.loaded.folder

    async def run(self, advance: Advance, rank: int = 0) -> DocumentTranslation[Any]:
        """The result of a task, whose jobs are decoded; raises Refused. Cancelling it frees what is in flight.

        With a `rank` nothing is decoded: it is that of hypotheses of an earlier run, of each sentence or its last one.
        """
        if self.glossary is not None:
            check_options(self.engines[self.route[-1].model].translator.defaults)
        answers: list[Translation] | None = None
        while True:
            done, value = await advance(answers)
            if done:
                result: DocumentTranslation[Any] = value
                return result
            if rank:
                answers = [self._ranked(job, rank) for job in value]
                continue
            sentences = sum(job.begin is None for job in value)  # others are of the same sentences again
            self.ticket.add(sentences - (answers is None and self.ticket.texts > 0))  # a text itself was counted
            if answers is None and self.ticket.texts > 1:
                await asyncio.sleep(0)  # others are read first: sentences that come together are decoded together
            answers = await self._decode(value)

    def _ranked(self, job: Job, rank: int) -> Translation:
        keys = [(job.text, job.begin, count) for count in (job.changes.get("num_hypotheses"), None)]
        known = [self.translations[key] for key in keys if key in self.translations]
        text = "" if job.begin else job.text
        translation = (*known, Translation(job.text, (replace(EMPTY, text=text),)))[0]
        best = translation.hypotheses[min(rank, len(translation.hypotheses) - 1)]
        return replace(translation, hypotheses=(best,))

    async def _decode(self, jobs: Sequence[Job]) -> list[Translation]:
        """The translations of all jobs, of which as many are in flight as the request has places."""

        async def sentence(job: Job) -> Translation:
            async with self.ticket.places:
                return await self._sentence(job)

        return await all_of(sentence, jobs)  # cancelling a task frees the rows of its request

    async def _sentence(self, job: Job) -> Translation:
        *before, last = self.route
        text, terms = job.text, self.glossary.find(job.text) if before and self.glossary else []
        for hop in before:
            attends = bool(terms) and self.engines[hop.model].translator.loaded.attends
            pivot = await self._decoded(hop, Job(text, {"return_attention": attends}))
            text, terms = pivot.text, moved(terms, pivot)
        steps = term_steps(
            Job(text, {**self.options, **job.changes}, job.begin),
            terms,
            self.engines[last.model].translator.loaded.attends,
        )
        answers: list[Translation] | None = None
        while True:
            done, value = next_jobs(steps, answers)
            if done:
                break
            answers = [await self._decoded(last, each) for each in value]
        translation: Translation = value
        if job.begin is None:
            self.ticket.finished()
            self.metrics.sentences.inc()
        if before:  # attention is to the words of the pivot, which are not the client's
            hypotheses = tuple(replace(answer, attention=None) for answer in translation.hypotheses)
            translation = Translation(job.text, hypotheses, translation.truncated)
        if self.remembers:
            self.translations.setdefault((job.text, job.begin, job.changes.get("num_hypotheses")), translation)
        return translation

    async def _decoded(self, hop: Hop, job: Job) -> Translation:
        """The translation of a job by the model of a hop."""
        engine, keywords = self.engines[hop.model], {**hop.languages, **job.changes}
        if keywords.get("return_attention") and not engine.translator.loaded.attends:
            keywords["return_attention"] = False
        return await decode(engine, job.text, {**keywords, "target_prefix": job.begin} if job.begin else keywords)


async def decode(engine: Engine, text: str, keywords: dict[str, Any]) -> Translation:
    """Decode a sentence with the others that are in flight; raises Refused for what the model cannot do."""
    loop = asyncio.get_running_loop()
    answer = loop.create_future()
    try:
        handle = engine.session.submit(text, **keywords)
        # Not asyncio.wrap_future, which looks at the answer in four more places.
        handle.add_done_callback(lambda _: loop.call_soon_threadsafe(_wake, answer))
        try:
            await answer
        except asyncio.CancelledError:
            handle.cancel()
            raise
        return handle.result()
    except RequestCancelledError:
        raise Refused(503, "the server ends") from None
    except SharpbeamError as error:
        raise Refused(400, f"Invalid request: {error}") from None


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


async def all_of(work: Callable[[Each], Coroutine[Any, Any, T]], items: Sequence[Each]) -> list[T]:
    """The results of the work on all items; the first error, or cancelling, ends the others."""
    if len(items) == 1:  # a task costs as much as the rest
        return [await work(items[0])]
    tasks: list[asyncio.Task[T]] = []
    try:
        for each in items:
            tasks.append(asyncio.create_task(work(each)))
            if len(tasks) % BURST == 0:
                await asyncio.sleep(0)
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
