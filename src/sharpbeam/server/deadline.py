"""Deadlines: the work of a task ends when its time is over, or when its client has left.

asyncio and anyio have scopes for it, which cost more than the rest of a short request: these are timers, and a client
is watched only once its request has taken a while.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any

from starlette.types import Receive

LOOK = 0.25  # seconds of work before its client is watched


class Deadline:
    """`with Deadline(seconds):` leaves the block when the time is over; `over` says whether it did."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.over = self.left = False

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._end)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        self._timer.cancel()
        if self.over or self.left:
            if hasattr(self._task, "uncancel"):  # Python 3.11
                self._task.uncancel()
            return kind is asyncio.CancelledError
        return False

    def _end(self) -> None:
        self.over = True
        self._task.cancel()


class Watch(Deadline):
    """A deadline for the work for a client, which ends too when the client leaves: then `left` is true.

    The body of its request must have been read.
    """

    def __init__(self, seconds: float, receive: Receive) -> None:
        super().__init__(seconds)
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None

    def __enter__(self) -> Watch:
        super().__enter__()
        self._look = asyncio.get_running_loop().call_later(LOOK, self._begin)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        self._look.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        return super().__exit__(kind, error, _)

    def _begin(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.left = True
        self._task.cancel()
