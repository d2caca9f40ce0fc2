"""The service: translates the texts of a request, whatever the protocol that it came in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from typing import Any

from sharpbeam.decoding.results import Translation
from sharpbeam.errors import SharpbeamError
from sharpbeam.options.server import ServerOptions
from sharpbeam.server.admission import Admission
from sharpbeam.server.catalog import Catalog, Hop
from sharpbeam.server.detection import Detection, detect
from sharpbeam.server.metrics import Metrics
from sharpbeam.server.pool import Engine, Pool
from sharpbeam.server.refusals import Refused, bad_request
from sharpbeam.server.segments import Segments, split_text

AT_ONCE = 32  # sentences of one request in flight, so that a long one leaves capacity to others


@dataclass(frozen=True)
class Asked:
    """The texts of a request, and how they are to be translated."""

    texts: list[str]
    source: str  # a code as the client sent it; "auto": detected for each text
    target: str
    alternatives: int = 0
    details: bool = False  # whether words, their confidence and alignment are returned


@dataclass(frozen=True)
class Sentence:
    """A translated sentence. With a pivot, `first` is its translation into that."""

    source: str
    translation: Translation
    first: Translation | None = None


@dataclass(frozen=True)
class Translated:
    """A translated text."""

    segments: Segments
    sentences: list[Sentence]
    detected: Detection | None  # where the source was "auto"

    @property
    def text(self) -> str:
        """The translation."""
        return self.alternative(0)

    def alternative(self, rank: int) -> str:
        """The text made of the hypothesis number `rank` of each sentence, or of its last one."""
        found = [sentence.translation.hypotheses for sentence in self.sentences]
        return self.segments.joined([answers[min(rank, len(answers) - 1)].text for answers in found])


class Service:
    """Everything that the endpoints share: models, limits, counts."""

    def __init__(self, catalog: Catalog, pool: Pool, options: ServerOptions, metrics: Metrics) -> None:
        self.catalog, self.pool, self.options, self.metrics = catalog, pool, options, metrics
        self.admission = Admission(options)

    def check(self, asked: Asked) -> None:
        """Raise Refused where the request is larger than the limits."""
        options = self.options
        characters = sum(map(len, asked.texts))
        if 0 < options.batch_limit < len(asked.texts):
            raise bad_request(
                f"Invalid request: request ({len(asked.texts)}) exceeds text limit ({options.batch_limit})"
            )
        if 0 < options.char_limit < characters:
            raise bad_request(f"Invalid request: request ({characters}) exceeds text limit ({options.char_limit})")
        if not 0 <= asked.alternatives <= options.alternatives_limit:
            raise bad_request(
                f"Invalid request: alternatives ({asked.alternatives}) must be between 0 and "
                f"{options.alternatives_limit}"
            )

    async def translate(self, asked: Asked) -> list[Translated]:
        """Translate the texts of a request; raises Refused. Cancelling it frees what is in flight."""
        done: dict[tuple[int, int], Sentence] = {}
        plan: list[tuple[Segments, Detection | None]] = []
        async for text, number, sentence in self.stream(asked, plan):
            done[text, number] = sentence
        return [
            Translated(segments, [done[text, number] for number in range(len(segments.sentences))], detected)
            for text, (segments, detected) in enumerate(plan)
        ]

    async def stream(
        self, asked: Asked, plan: list[tuple[Segments, Detection | None]]
    ) -> AsyncGenerator[tuple[int, int, Sentence], None]:
        """Yield (index of the text, of the sentence, the sentence) as they finish.

        Fills `plan` with the segments and the detected language of each text, before the first sentence.
        """
        self.check(asked)
        target = self.catalog.known(asked.target)
        jobs: list[tuple[int, int, str, tuple[Hop, ...]]] = []
        for index, text in enumerate(asked.texts):
            detected = detect(text, self.catalog.sources) if asked.source == "auto" else None
            source = self.catalog.known(detected.language if detected else asked.source)
            route = self.catalog.route(source, target)
            segments = split_text(text, source) if route else Segments([], [text])
            plan.append((segments, detected))
            jobs += [(index, number, sentence, route) for number, sentence in enumerate(segments.sentences)]
        self.metrics.count_texts(asked.texts, len(jobs))
        with self.admission.accept(len(jobs)):
            async with AsyncExitStack() as held:
                names = {hop.model for *_, route in jobs for hop in route}
                engines = {name: await held.enter_async_context(self.pool.engine(name)) for name in sorted(names)}
                async with aclosing(self._run(jobs, engines, asked)) as found:
                    async for sentence in found:
                        yield sentence

    async def _run(
        self, jobs: list[tuple[int, int, str, tuple[Hop, ...]]], engines: dict[str, Engine], asked: Asked
    ) -> AsyncGenerator[tuple[int, int, Sentence], None]:
        waiting = iter(jobs)
        running: dict[asyncio.Task[Sentence], tuple[int, int]] = {}
        try:
            while True:
                for text, number, sentence, route in waiting:
                    task = asyncio.create_task(self._sentence(sentence, route, engines, asked))
                    running[task] = (text, number)
                    if len(running) >= AT_ONCE:
                        break
                if not running:
                    return
                finished, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in finished:
                    yield (*running.pop(task), task.result())
        finally:
            for task in running:
                task.cancel()  # and with it the handle, which frees its rows

    async def _sentence(self, text: str, route: tuple[Hop, ...], engines: dict[str, Engine], asked: Asked) -> Sentence:
        first = None
        for hop in route[:-1]:
            first = await self._decode(text, hop, engines[hop.model], replace(asked, alternatives=0))
        translation = await self._decode(first.text if first else text, route[-1], engines[route[-1].model], asked)
        self.admission.finished()
        return Sentence(text, translation, first)

    async def _decode(self, text: str, hop: Hop, engine: Engine, asked: Asked) -> Translation:
        keywords: dict[str, Any] = dict(hop.languages)
        if asked.alternatives:
            beam = max(engine.translator.defaults.search.beam_size, asked.alternatives + 1)
            keywords |= {"beam_size": beam, "num_hypotheses": asked.alternatives + 1}
        if asked.details and engine.attends:
            keywords["return_attention"] = True
        return await self.submit(engine, text, keywords)

    async def submit(self, engine: Engine, text: str, keywords: dict[str, Any]) -> Translation:
        """Decode a text with the others that are in flight; raises Refused for what the model cannot do."""
        try:
            return await asyncio.wrap_future(engine.session.submit(text, **keywords))
        except SharpbeamError as error:
            raise Refused(400, f"Invalid request: {error}") from None

    async def alternatives(self, sentence: str, route: tuple[Hop, ...], prefix: str, count: int) -> list[str]:
        """Translations of a sentence that begin with `prefix` and differ in the word after it, the likeliest first."""
        with self.admission.accept(1):
            async with AsyncExitStack() as held:
                for hop in route:
                    engine = await held.enter_async_context(self.pool.engine(hop.model))
                    keywords: dict[str, Any] = dict(hop.languages)
                    if hop is route[-1]:
                        keywords |= {"return_alternatives": True, "num_hypotheses": count, "target_prefix": prefix}
                    found = await self.submit(engine, sentence, keywords)
                    sentence = found.text
                return list(dict.fromkeys(answer.text for answer in found.hypotheses))
