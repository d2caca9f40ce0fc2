"""The service: translates the texts of a request, whatever the protocol that it came in."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from sharpbeam.documents import Sentence, TagOptions
from sharpbeam.errors import SharpbeamError
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.options.server import ServerOptions
from sharpbeam.server.admission import Admission, Ticket
from sharpbeam.server.catalog import Catalog, Hop
from sharpbeam.server.decoder import Decoder, all_of, decode
from sharpbeam.server.languages import Detection, detect
from sharpbeam.server.metrics import ServerMetrics
from sharpbeam.server.pool import Engine, Pool
from sharpbeam.server.refusals import bad_request
from sharpbeam.server.worker import Task
from sharpbeam.server.workers import Advance, Workers, inline
from sharpbeam.text.glossary import Glossary

INLINE = 1000  # characters of a text that is read in the event loop, in a quarter of a second at most
TEXT_WORKERS, SMALL_WORKERS, LARGE_WORKERS = 4, 2, 2  # for texts, for files of at most SMALL and for larger ones
SMALL = 100_000  # bytes of a file
AT_ONCE = 500  # sentences of a document in the decoder, and their answers in memory


@dataclass(frozen=True)
class Query:
    """The texts of a request, and how they are to be translated."""

    texts: list[str]
    source: str  # a code as the client sent it; "auto": detected for each text
    target: str
    format: str = "text"
    alternatives: int = 0
    details: bool = False  # whether words, their confidence and alignment are returned
    glossary: Glossary | None = None
    tags: TagOptions | None = None  # of html and xml


@dataclass
class TranslatedText:
    """A translated text."""

    text: str
    detection: Detection | None = None  # if the source was "auto"
    alternatives: list[str] = field(default_factory=list)
    sentences: Sequence[Sentence] = ()


class Service:
    """Everything that the endpoints share: models, limits, counts."""

    def __init__(self, catalog: Catalog, pool: Pool, options: ServerOptions) -> None:
        self.catalog, self.pool, self.options = catalog, pool, options
        self.admission = Admission(options.queue_limit)
        self.metrics = ServerMetrics(catalog.entries, pool.engines, self.admission)
        self.documents = DocumentOptions(guards=options.guards, at_once=AT_ONCE)
        # A worker is taken until a document is decoded: files, which have more time, keep none from texts.
        self._texts, self._small, self._large = map(Workers, (TEXT_WORKERS, SMALL_WORKERS, LARGE_WORKERS))

    async def close(self) -> None:
        """End the workers and the models."""
        for each in (self._texts, self._small, self._large, self.pool):
            await each.close()

    def check(self, query: Query) -> None:
        """Raise Refused where the request is larger than the limits."""
        options, texts, characters = self.options, len(query.texts), sum(map(len, query.texts))
        if 0 < options.batch_limit < texts:
            raise bad_request(f"Invalid request: request ({texts}) exceeds text limit ({options.batch_limit})")
        if 0 < options.char_limit < characters:
            raise bad_request(f"Invalid request: request ({characters}) exceeds text limit ({options.char_limit})")
        if not 0 <= query.alternatives <= options.alternatives_limit:
            raise bad_request(
                f"Invalid request: alternatives ({query.alternatives}) must be between 0 and "
                f"{options.alternatives_limit}"
            )

    async def translate(self, query: Query) -> list[TranslatedText]:
        """Translate the texts of a request; raises Refused. Cancelling it frees what is in flight."""
        self.check(query)
        target = self.catalog.code_of(query.target)
        with Ticket(self.admission, len(query.texts)) as ticket:
            known = self.catalog.sources if query.source == "auto" else ()
            detected = [detect(text, known, target) if known else None for text in query.texts]
            sources = [self.catalog.code_of(each.language if each else query.source) for each in detected]
            routes = [self.catalog.route(source, target) for source in sources]
            self.metrics.characters.inc(sum(map(len, query.texts)))
            engines = await self.pool.take({hop.model for route in routes for hop in route})

            def work(index: int) -> Coroutine[Any, Any, TranslatedText]:
                keywords = _keywords(query, engines, routes[index], self.options.guards)
                own = ticket, self.metrics, keywords, query.glossary, query.alternatives > 0
                return self._text(query.texts[index], sources[index], query, Decoder(engines, routes[index], *own))

            results = await all_of(work, range(len(routes)))
        for result, detection in zip(results, detected, strict=True):
            result.detection = detection
        return results

    async def _text(self, text: str, source: str, query: Query, decoder: Decoder) -> TranslatedText:
        if not decoder.route:
            return TranslatedText(text)
        target, how = self.catalog.code_of(query.target), (*decoder.model, query.glossary, query.details, query.tags)
        task = Task(text, query.format, False, self.documents, source, target, *how)
        try:
            async with self._steps(task) as advance:
                document = await decoder.run(advance)
        except SharpbeamError as error:
            raise bad_request(f"Invalid request: {error}") from None
        result, translations = TranslatedText(document.content), decoder.translations
        if query.details:
            result.sentences = document.sentences
        for rank in range(1, query.alternatives + 1):
            if any(len(answer.hypotheses) > rank for answer in translations.values()):
                async with self._steps(task) as advance:
                    result.alternatives.append((await decoder.run(advance, rank)).content)
        return result

    async def translate_file(
        self, content: bytes, format: str, source: str, target: str, glossary: Glossary | None = None
    ) -> bytes:
        """Translate the bytes of a file; raises Refused. Its source may be "auto"."""
        target = self.catalog.code_of(target)
        try:
            with Ticket(self.admission, 0) as ticket:
                source = await self._found(content, format, target) if source == "auto" else source
                source = self.catalog.code_of(source)
                route = self.catalog.route(source, target)
                if not route:
                    return content
                engines = await self.pool.take({hop.model for hop in route})
                decoder = Decoder(engines, route, ticket, self.metrics, glossary=glossary)
                task = Task(content, format, False, self.documents, source, target, *decoder.model, glossary)
                async with self._steps(task) as advance:
                    translation: bytes = (await decoder.run(advance)).content
                    return translation
        except SharpbeamError as error:
            raise bad_request(f"Invalid file: {error}") from None

    async def _found(self, content: bytes, format: str, target: str) -> str:
        """The language of a file by its beginning."""
        async with self._steps(Task(content, format, sample=True)) as advance:
            _, begin = await advance(None)
        return detect(begin.content, self.catalog.sources, target).language

    def _steps(self, task: Task) -> AbstractAsyncContextManager[Advance]:
        if isinstance(task.content, str):
            return inline(task) if len(task.content) <= INLINE else self._texts.steps(task)
        return (self._small if len(task.content) <= SMALL else self._large).steps(task)

    async def alternatives(self, sentence: str, route: tuple[Hop, ...], prefix: str, count: int) -> list[str]:
        """Translations of a sentence that begin with `prefix` and differ in the word after it, the likeliest first."""
        with Ticket(self.admission, 1):
            engines = await self.pool.take({hop.model for hop in route})
            for hop in route:
                others = {"return_alternatives": True, "num_hypotheses": count, "target_prefix": prefix}
                keywords = {**hop.languages, **(others if hop is route[-1] else {})}
                translation = await decode(engines[hop.model], sentence, keywords)
                sentence = translation.text
        return list(dict.fromkeys(answer.text for answer in translation.hypotheses))


def _keywords(query: Query, engines: Mapping[str, Engine], route: Sequence[Hop], guards: bool) -> dict[str, Any]:
    """The options that a request asks for, of the last model of its route."""
    keywords: dict[str, Any] = {"return_attention": True} if query.details else {}
    if query.details or query.alternatives or guards:
        keywords["return_scores"] = True
    if query.alternatives and route:
        least = engines[route[-1].model].translator.defaults.search.beam_size
        keywords |= {"beam_size": max(least, query.alternatives + 1), "num_hypotheses": query.alternatives + 1}
    return keywords
