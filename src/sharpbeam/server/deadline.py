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
    """`with Deadline(seconds):` leaves the block when the time is over, or when the client of `receive` leaves.

    The body of its request must have been read. `absent` says whether the client left.
    """

    def __init__(self, seconds: float, receive: Receive | None = None) -> None:
        self._seconds, self._receive = seconds, receive
        self._timers: list[asyncio.TimerHandle] = []
        self._watcher: asyncio.Task[None] | None = None
        self._over = self.absent = False

    def __enter__(self) -> Deadline:
        task = asyncio.current_task()
        assert task is not None
        self._task: asyncio.Task[Any] = task
        loop = asyncio.get_running_loop()
        self._timers.append(loop.call_later(self._seconds, self._end))
        if self._receive is not None:
            self._timers.append(loop.call_later(LOOK, self._watch, self._receive))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        for timer in self._timers:
            timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if not self._over:
            return False
        if hasattr(self._task, "uncancel"):  # Python 3.11
            self._task.uncancel()
        return kind is asyncio.CancelledError

    def _end(self) -> None:
        self._over = True
        self._task.cancel()

    def _watch(self, receive: Receive) -> None:
        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            self.absent = True
            self._end()

        self._watcher = asyncio.get_running_loop().create_task(watch())
