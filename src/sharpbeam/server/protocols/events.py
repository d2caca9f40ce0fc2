"""Server-sent events: one for each sentence as it is done, then the whole answer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import anyio
from fastapi.responses import StreamingResponse

from sharpbeam.server.detection import Detection
from sharpbeam.server.endpoint import Gate
from sharpbeam.server.refusals import Refused
from sharpbeam.server.segments import Segments
from sharpbeam.server.service import Asked, Sentence, Translated


async def event_stream(
    gate: Gate, asked: Asked, answer: Callable[[list[Translated]], dict[str, Any]]
) -> StreamingResponse:
    """Events `sentence` {text, sentence, translation}, both indices from 0, and `done`, the answer; or `error`.

    The first sentence is waited for, so that a refusal has its status. When the client leaves, the work is cancelled.
    """
    plan: list[tuple[Segments, Detection | None]] = []
    found = gate.service.stream(asked, plan)
    first: tuple[int, int, Sentence] | None = None
    seconds = gate.service.options.timeout
    try:
        with anyio.fail_after(seconds):
            first = await anext(found, None)
    except TimeoutError:
        raise Refused(503, f"no answer within {seconds:g} seconds", seconds) from None

    async def events() -> AsyncIterator[str]:
        done: dict[tuple[int, int], Sentence] = {}
        sentence = first
        async with aclosing(found):
            try:
                with anyio.fail_after(seconds):
                    while sentence is not None:
                        text, number, translated = sentence
                        done[text, number] = translated
                        said = {"text": text, "sentence": number, "translation": translated.translation.text}
                        yield event("sentence", said)
                        sentence = await anext(found, None)
            except (Refused, TimeoutError) as error:
                yield event("error", {"error": str(error) or f"no answer within {seconds:g} seconds"})
                return
        whole = [
            Translated(segments, [done[text, number] for number in range(len(segments.sentences))], detected)
            for text, (segments, detected) in enumerate(plan)
        ]
        yield event("done", answer(whole))

    return StreamingResponse(events(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def event(name: str, data: dict[str, Any]) -> str:
    """One event; its data are one line of JSON."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
