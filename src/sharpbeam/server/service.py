"""The service: translates the texts of a request, whatever the protocol that it came in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from sharpbeam.decoding.results import EMPTY, Translation
from sharpbeam.documents import Sentence
from sharpbeam.errors import SharpbeamError
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.options.server import ServerOptions
from sharpbeam.server.admission import Admission, Ticket
from sharpbeam.server.catalog import Catalog, Hop
from sharpbeam.server.decoder import Decoder, decode
from sharpbeam.server.detection import Detection, detect
from sharpbeam.server.metrics import Metrics
from sharpbeam.server.pool import Engine, Pool
from sharpbeam.server.refusals import bad_request
from sharpbeam.server.task import Inline, Task
from sharpbeam.server.workers import Remote, Workers
from sharpbeam.text.glossary import Glossary

T = TypeVar("T")
INLINE = 1000  # characters of a text that is read in the event loop, in a quarter of a second at most
SMALL_WORKERS, LARGE_WORKERS = 2, 4  # of a server, for documents of at most workers.SMALL and for larger ones
AT_ONCE = 500  # sentences of a document in the decoder, and their answers in memory
Tell = Callable[[int, str, str], None]


@dataclass(frozen=True)
class Asked:
    """The texts of a request, and how they are to be translated."""

    texts: list[str]
    source: str  # a code as the client sent it; "auto": detected for each text
    target: str
    format: str = "text"
    alternatives: int = 0
    details: bool = False  # whether words, their confidence and alignment are returned
    glossary: Glossary | None = None


@dataclass
class Translated:
    """A translated text."""

    text: str
    detected: Detection | None = None  # where the source was "auto"
    alternatives: list[str] = field(default_factory=list)
    sentences: list[tuple[Sentence, Translation]] = field(default_factory=list)


class Service:
    """Everything that the endpoints share: models, limits, counts."""

    def __init__(
        self, catalog: Catalog, pool: Pool, options: ServerOptions, metrics: Metrics, admission: Admission
    ) -> None:
        self.catalog, self.pool, self.options, self.metrics = catalog, pool, options, metrics
        self.admission = admission
        self.documents = DocumentOptions(guards=options.guards, at_once=AT_ONCE)
        self._small = Workers(-(-SMALL_WORKERS // admission.processes))
        self._large = Workers(-(-LARGE_WORKERS // admission.processes))

    async def close(self) -> None:
        """End the workers."""
        await self._small.close()
        await self._large.close()

    def check(self, asked: Asked) -> None:
        """Raise Refused where the request is larger than the limits."""
        options, texts, characters = self.options, len(asked.texts), sum(map(len, asked.texts))
        if 0 < options.batch_limit < texts:
            raise bad_request(f"Invalid request: request ({texts}) exceeds text limit ({options.batch_limit})")
        if 0 < options.char_limit < characters:
            raise bad_request(f"Invalid request: request ({characters}) exceeds text limit ({options.char_limit})")
        if not 0 <= asked.alternatives <= options.alternatives_limit:
            raise bad_request(
                f"Invalid request: alternatives ({asked.alternatives}) must be between 0 and "
                f"{options.alternatives_limit}"
            )

    async def translate(self, asked: Asked, tell: Tell | None = None) -> list[Translated]:
        """Translate the texts of a request; raises Refused. Cancelling it frees what is in flight.

        `tell` is called with (index of the text, sentence, its translation) as sentences are done.
        """
        self.check(asked)
        target = self.catalog.known(asked.target)
        detected = [detect(text, self.catalog.sources) if asked.source == "auto" else None for text in asked.texts]
        sources = [self.catalog.known(found.language if found else asked.source) for found in detected]
        routes = [self.catalog.route(source, target) for source in sources]
        self.metrics.count_texts(asked.texts)
        with (
            Ticket(self.admission, sum(len(text) > INLINE for text in asked.texts)) as ticket,
            await self.pool.hold({hop.model for route in routes for hop in route}) as engines,
        ):
            work = []
            for index, (text, source, route) in enumerate(zip(asked.texts, sources, routes, strict=True)):
                told = None if tell is None else partial(tell, index)
                keywords = _keywords(asked, engines, route, self.options.guards)
                remembers = asked.details or asked.alternatives > 0
                decoder = Decoder(engines, route, ticket, self.metrics, keywords, told, asked.glossary, remembers)
                work.append(self._text(text, source, asked, decoder))
            done = [await work[0]] if len(work) == 1 else await all_of(work)
        for each, found in zip(done, detected, strict=True):
            each.detected = found
        return done

    async def _text(self, text: str, source: str, asked: Asked, decoder: Decoder) -> Translated:
        if not decoder.route:
            return Translated(text)
        try:
            document = await decoder.run(self._steps(text, source, asked, decoder))
        except SharpbeamError as error:
            raise bad_request(f"Invalid request: {error}") from None
        done = Translated(document.content)
        if asked.details:
            done.sentences = [
                (each, decoder.found[each.source]) for each in document.sentences if each.source in decoder.found
            ]
        for rank in range(1, asked.alternatives + 1):
            if any(len(answer.hypotheses) > rank for answer in decoder.found.values()):
                other = await decoder.again(self._steps(text, source, asked, decoder), rank)
                done.alternatives.append(other.content)
        return done

    async def translate_file(self, content: bytes, format: str, source: str, target: str) -> bytes:
        """Translate the bytes of a file; raises Refused. Its source may be "auto"."""
        known = self.catalog.known(target)
        try:
            with Ticket(self.admission, 1) as ticket:
                source = self.catalog.known(await self._language(content, format) if source == "auto" else source)
                route = self.catalog.route(source, known)
                if not route:
                    return content
                with await self.pool.hold({hop.model for hop in route}) as engines:
                    decoder = Decoder(engines, route, ticket, self.metrics)
                    task = Task(content, format, False, self.documents, source, known, decoder.attends)
                    done: bytes = (await decoder.run(Remote(task, self._small, self._large))).content
                    return done
        except SharpbeamError as error:
            raise bad_request(f"Invalid file: {error}") from None

    async def _language(self, content: bytes, format: str) -> str:
        """The language of a file by its beginning."""
        sample = Remote(Task(content, format, sample=True), self._small, self._large)
        try:
            _, begin = await sample.next(None)
        finally:
            sample.close()
        return detect(begin.content, self.catalog.sources).language

    def _steps(self, text: str, source: str, asked: Asked, decoder: Decoder) -> Inline | Remote:
        how = decoder.attends, asked.glossary, asked.details
        task = Task(text, asked.format, False, self.documents, source, self.catalog.known(asked.target), *how)
        return Inline(task) if len(text) <= INLINE else Remote(task, self._small, self._large)

    async def alternatives(self, sentence: str, route: tuple[Hop, ...], prefix: str, count: int) -> list[str]:
        """Translations of a sentence that begin with `prefix` and differ in the word after it, the likeliest first."""
        found = Translation(sentence, (EMPTY,))
        with Ticket(self.admission) as ticket:
            ticket.add(1)
            with await self.pool.hold({hop.model for hop in route}) as engines:
                for hop in route:
                    wanted = {"return_alternatives": True, "num_hypotheses": count, "target_prefix": prefix}
                    keywords = {**hop.languages, **(wanted if hop is route[-1] else {})}
                    found = await decode(engines[hop.model], sentence, keywords)
                    sentence = found.text
        return list(dict.fromkeys(answer.text for answer in found.hypotheses))


def _keywords(asked: Asked, engines: Mapping[str, Engine], route: Sequence[Hop], guards: bool) -> dict[str, Any]:
    """The options that a request asks for, of the last model of its route."""
    keywords: dict[str, Any] = {"return_attention": True} if asked.details else {}
    if asked.details or asked.alternatives or guards:
        keywords["return_scores"] = True
    if asked.alternatives and route:
        least = engines[route[-1].model].translator.defaults.search.beam_size
        keywords |= {"beam_size": max(least, asked.alternatives + 1), "num_hypotheses": asked.alternatives + 1}
    return keywords


async def all_of(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of all; the first error, or cancelling, ends the others."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
