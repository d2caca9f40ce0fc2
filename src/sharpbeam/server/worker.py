"""A worker: a process without a model that reads and writes the documents of others, and can be killed at any time.

The server sends messages as `multiprocessing` does. The worker, which has read bytes of strangers, answers in JSON and
plain bytes, of which nothing can run.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from sharpbeam.documents import DocumentTranslation
from sharpbeam.errors import SharpbeamError
from sharpbeam.server.refusals import places
from sharpbeam.server.task import Answers, Task, advance

MEMORY = 2**30  # bytes that a worker may have
OOM_SCORE = 500  # of 1000: where memory is short the system ends workers before servers
FULL = 3  # status of a worker that has no memory left
PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2): a signal when the thread that started this process ends
HEAD, REPLY = struct.Struct("!Q"), struct.Struct("!QQ")  # sizes: of a message; of a reply and of the content in it

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


def main() -> None:
    """Serve the process that started this one, until it closes the input."""
    try:
        _serve()
    except MemoryError:
        os._exit(FULL)


def _serve() -> None:
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a package prints is no reply
    _restrict()
    steps: Any = None
    while len(head := sys.stdin.buffer.read(HEAD.size)) == HEAD.size:
        message: Task | Answers = ForkingPickler.loads(sys.stdin.buffer.read(HEAD.unpack(head)[0]))
        try:
            if isinstance(message, Task):
                _allow(message)
                steps = message.steps()
            done, value = advance(steps, None if isinstance(message, Task) else message)
            reply, content = _reply(done, value)
        except SharpbeamError as error:
            done, reply, content = True, {"refused": str(error)}, b""
        except MemoryError:
            raise
        except Exception as error:
            done, reply, content = True, {"fault": places(error)}, b""
        if done:
            steps = value = message = None  # type: ignore[assignment]
        data = json.dumps(reply).encode()
        replies.write(REPLY.pack(len(data), len(content)) + data + content)
        replies.flush()


def _reply(done: bool, value: Any) -> tuple[dict[str, Any], bytes]:
    """A step as a reply in JSON, and the content of a document that is done."""
    if not done:
        return {"jobs": [(job.text, job.changes) for job in value]}, b""
    document: DocumentTranslation[Any] = value
    text = isinstance(document.content, str)
    reply = {"text": text, "sentences": [asdict(sentence) for sentence in document.sentences]}
    return reply, document.content.encode() if text else document.content


def _restrict() -> None:
    """End with the parent, not with its signals; be the first to lack memory."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if resource is not None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PARENT_DEATH, signal.SIGKILL)
    with suppress(OSError):  # not on Linux
        Path("/proc/self/oom_score_adj").write_text(str(OOM_SCORE))


def _allow(task: Task) -> None:
    """Have the system kill this process when the task has taken the time that its size may cost."""
    if resource is not None:
        seconds = int(time.process_time() + task.cpu_seconds) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
