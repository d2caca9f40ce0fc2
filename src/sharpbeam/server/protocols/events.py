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
    events: asyncio.Queue[str | None] = asyncio.Queue()  # None is the end
    refusal: Refused | None = None

    def tell(text: int, source: str, translation: str) -> None:
        events.put_nowait(event("sentence", {"text": text, "source": source, "translation": translation}))

    async def work() -> None:
        nonlocal refusal
        try:
            results = await gate.answer(request, gate.service.translate(query, tell))
            events.put_nowait(await asyncio.to_thread(lambda: event("done", answer(results))))
        except Refused as error:
            refusal = error
        finally:
            events.put_nowait(None)

    task = asyncio.create_task(work())
    try:
        first = await events.get()
    except asyncio.CancelledError:
        task.cancel()
        raise
    if first is None:
        await task
        raise refusal or Refused(500, "internal error")

    async def lines() -> AsyncIterator[str]:
        try:
            line: str | None = first
            while line is not None:
                yield line
                line = await events.get()
            await task
            if refusal is not None:
                yield event("error", {"error": refusal.message})
        finally:
            task.cancel()

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})


def event(name: str, data: dict[str, Any]) -> str:
    """One event; its data are one line of JSON."""
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"
