"""Work on documents: here if it is short, or by a bounded number of workers, killed when their client has left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

from sharpbeam.contract.confidence import Word
from sharpbeam.contract.steps import Job
from sharpbeam.decoding.inputs import Forced
from sharpbeam.documents import DocumentTranslation, Sentence
from sharpbeam.errors import InputError
from sharpbeam.server.refusals import Fault, Refused
from sharpbeam.server.worker import FULL, HEAD, MEMORY, REPLY, Answers, Task, advance

Advance = Callable[[Answers | None], Awaitable[tuple[bool, Any]]]  # of a task: as the function `advance`
WAITING = 64 * 2**20  # bytes of documents that wait for a worker
IDLE = 2  # workers that stay for the next document
XCPU, ABRT, KILL = (getattr(signal, name, 999) for name in ("SIGXCPU", "SIGABRT", "SIGKILL"))
NO_MEMORY = (FULL, -ABRT, -KILL)  # a worker says so, a package of it, or the system
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(eq=False)
class KillableWorker:
    """A process that does one task at a time."""

    process: Process
    free: bool = True  # it has nothing to do, and nothing to remember

    async def ask(self, message: Task | Answers) -> tuple[bool, Any]:
        """Whether its steps are done, and their result or jobs; raises InputError for what it cannot read."""
        self.free = False
        reader, writer = self.process.stdout, self.process.stdin
        assert reader is not None and writer is not None
        data = bytes(ForkingPickler.dumps(message))
        try:
            writer.write(HEAD.pack(len(data)) + data)
            await writer.drain()
            size, length = REPLY.unpack(await reader.readexactly(REPLY.size))
            reply, content = json.loads(await reader.readexactly(size)), await reader.readexactly(length)
        except (EOFError, ConnectionError):
            status = await self.process.wait()
            if status == -XCPU:
                raise InputError("reading or writing it takes too much time for its size.") from None
            if status in NO_MEMORY:
                raise InputError(f"reading or writing it takes more than {MEMORY >> 20} MiB of memory.") from None
            raise Fault({"error": "end of a worker", "status": status}) from None
        self.free = "jobs" not in reply
        if "fault" in reply:
            raise Fault(reply["fault"])
        if "refused" in reply:
            raise InputError(reply["refused"])
        if "jobs" in reply:
            jobs = reply["jobs"]
            return False, [Job(text, changes, Forced(*begin) if begin else None) for text, changes, begin in jobs]
        for each in reply["sentences"]:
            each["words"] = [Word(**word) for word in each["words"]]
        sentences = tuple(Sentence(**each) for each in reply["sentences"])
        return True, DocumentTranslation(content.decode() if reply["text"] else content, sentences)

    @property
    def alive(self) -> bool:
        """Whether it can be asked."""
        return self.process.returncode is None


async def _start() -> KillableWorker:
    program = f"import sys; sys.path[:] = {sys.path!r}; from sharpbeam.server.worker import main; main()"
    command, environment = (sys.executable, "-c", program), os.environ | dict.fromkeys(THREADS, "1")
    return KillableWorker(
        await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment)
    )


class Workers:
    """Workers that are started when they are needed. Its methods belong to the event loop."""

    def __init__(self, most: int) -> None:
        """At most `most` work at a time."""
        self._places = asyncio.Semaphore(most)
        self._all: set[KillableWorker] = set()
        self._idle: list[KillableWorker] = []
        self._waiting = 0  # bytes

    @asynccontextmanager
    async def steps(self, task: Task) -> AsyncIterator[Advance]:
        """The steps of a task in a worker, which is reserved until they are done, and killed if they are not.

        They raise InputError for what it cannot read. Raises Refused if too much waits.
        """
        worker = await self._take(len(task.content))
        try:
            yield lambda answers: worker.ask(task if answers is None else answers)
        finally:
            self._give_back(worker)

    async def _take(self, size: int) -> KillableWorker:
        """A worker for a document of `size`, as soon as there is one; raises Refused where too much waits."""
        if self._places.locked() and self._waiting + size > WAITING:
            raise Refused(429, "the server is busy; try again later", 5.0)
        self._waiting += size
        try:
            await self._places.acquire()
        finally:
            self._waiting -= size
        try:
            while self._idle:
                if (worker := self._idle.pop()).alive:
                    return worker
                self._all.discard(worker)
            starting = asyncio.ensure_future(_start())
            try:
                worker = await asyncio.shield(starting)
            except asyncio.CancelledError:
                starting.add_done_callback(lambda ended: None if ended.cancelled() else ended.result().process.kill())
                raise
        except BaseException:
            self._places.release()
            raise
        self._all.add(worker)
        return worker

    def _give_back(self, worker: KillableWorker) -> None:
        """Let others have a worker; one that still works is killed."""
        self._places.release()
        if worker.free and worker.alive and len(self._idle) < IDLE:
            self._idle.append(worker)
            return
        if worker.alive:
            worker.process.kill()
        ended = asyncio.ensure_future(worker.process.wait())  # until then `close` waits for it
        ended.add_done_callback(lambda _: self._all.discard(worker))

    async def close(self) -> None:
        """Kill all."""
        for worker in list(self._all):
            if worker.alive:
                worker.process.kill()
            await worker.process.wait()


@asynccontextmanager
async def inline(task: Task) -> AsyncIterator[Advance]:
    """The steps of a task in this process: of a text so small that they take some milliseconds at most.

    Details take longer, so another thread than that of the event loop works for them.
    """
    steps = task.steps()

    async def following(answers: Answers | None) -> tuple[bool, Any]:
        return await asyncio.to_thread(advance, steps, answers) if task.details else advance(steps, answers)

    yield following
