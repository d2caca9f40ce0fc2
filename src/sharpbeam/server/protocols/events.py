"""Server-sent events: one for each sentence as it is done, then the whole answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from fastapi import Request
from fastapi.responses import StreamingResponse

from sharpbeam.server.endpoint import Gate
from sharpbeam.server.refusals import Refused
from sharpbeam.server.service import Query, TranslatedText


async def event_stream(
    gate: Gate, request: Request, query: Query, answer: Callable[[list[TranslatedText]], dict[str, Any]]
) -> StreamingResponse:
    """Events `sentence` {text, source, translation}, with the index of the text, and `done`, the answer; or `error`.

    The first event is waited for, so that a refusal has its status. When the client leaves, the work is cancelled.
    """
    events: asyncio.Queue[str] = asyncio.Queue()

    def tell(text: int, source: str, translation: str) -> None:
        events.put_nowait(event("sentence", {"text": text, "source": source, "translation": translation}))

    async def work() -> None:
        results = await gate.service.translate(query, tell)
        events.put_nowait(await asyncio.to_thread(lambda: event("done", answer(results))))

    task = asyncio.create_task(gate.answer(request, work()))
    first = asyncio.create_task(events.get())
    try:
        await asyncio.wait({task, first}, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.done() and not first.done() and events.empty():
        first.cancel()
        task.result()  # raises

    async def lines() -> AsyncIterator[str]:
        try:
            yield await first
            while not (task.done() and events.empty()):
                following = asyncio.create_task(events.get())
                await asyncio.wait({task, following}, return_when=asyncio.FIRST_COMPLETED)
                if following.done():
                    yield following.result()
                following.cancel()
            if isinstance(error := task.exception(), Refused):
                yield event("error", {"error": error.message})
        finally:
            task.cancel()

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def event(name: str, data: dict[str, Any]) -> str:
    """One event; its data are one line of JSON."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
