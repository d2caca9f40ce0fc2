"""A worker: a process without a model that reads and writes the documents of others, and can be killed at any time.

A document is a task of steps, between which its sentences are decoded elsewhere. The server sends messages as
`multiprocessing` does. The worker, which has read bytes of strangers, answers in JSON and plain bytes, of which nothing
can run.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import struct
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from sharpbeam.contract.steps import Job, Steps
from sharpbeam.decoding.results import Translation
from sharpbeam.documents import DocumentTranslation, TagOptions, document_steps, read_document, read_tagged
from sharpbeam.errors import SharpbeamError
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.server.refusals import places
from sharpbeam.text.glossary import Glossary
from sharpbeam.text.spelling import Spelling
from sharpbeam.text.vocabulary import read_vocabularies

MEMORY = 2**30  # bytes that a worker may have
OOM_SCORE = 500  # of 1000: where memory is short the system ends workers before servers
FULL = 3  # status of a worker that has no memory left
PARENT_DEATH = 1  # PR_SET_PDEATHSIG of prctl(2): a signal when the thread that started this process ends
HEAD, REPLY = struct.Struct("!Q"), struct.Struct("!QQ")  # sizes: of a message; of a reply and of the content in it
CPU_SECONDS, CPU_SECONDS_PER_BYTE = 10.0, 40e-6
BEGIN = 20  # segments that show the language of a document

Answers = Sequence[Translation]

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Task:
    """A document and how it is translated; or, as a sample, only read: its result is its beginning."""

    content: str | bytes
    format: str
    sample: bool = False
    options: DocumentOptions = DocumentOptions()  # noqa: RUF009 (frozen)
    source: str = ""
    target: str = ""
    attends: bool = True
    folder: Path | None = None  # of the model, whose vocabulary tells names in titles, and words that it lacks
    glossary: Glossary | None = None
    details: bool = False  # whether the result has its sentences, with their words
    tags: TagOptions | None = None  # what a client says of elements, of html and xml

    @property
    def cpu_seconds(self) -> float:
        """The processor time that it may take: all formats take linear time."""
        return CPU_SECONDS + CPU_SECONDS_PER_BYTE * len(self.content)

    def steps(self) -> Steps[DocumentTranslation[Any]]:
        """Read the document, ask for translations of its sentences, and return the result; raises SharpbeamError."""
        document: Any
        if self.tags is not None and isinstance(self.content, str):
            document = read_tagged(self.content, self.format, self.tags)
        else:
            document = read_document(self.content, self.format)
        if self.sample:
            return DocumentTranslation(" ".join(segment.text for segment in document.segments[:BEGIN]), ())
        how = self.attends, self.glossary, self.details, self.details, self.target, _spelling(self.folder)
        translation = yield from document_steps(document, self.options, self.source, *how)
        return translation if self.details else replace(translation, sentences=())


@lru_cache(maxsize=4)
def _spelling(folder: Path | None) -> Spelling:
    """That of a model's source vocabulary."""
    return Spelling((lambda: read_vocabularies(folder)[0]) if folder else None)


def advance(steps: Generator[Sequence[Job], Answers, Any], answers: Answers | None) -> tuple[bool, Any]:
    """Whether `steps` are done, and their result or their next jobs; None for the first ones."""
    try:
        return False, next(steps) if answers is None else steps.send(answers)
    except StopIteration as end:
        return True, end.value


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
                if resource is not None:  # the system ends what takes more time than a task of its size may cost
                    seconds = int(time.process_time() + message.cpu_seconds) + 1
                    resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
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
        return {"jobs": [(job.text, job.changes, job.begin) for job in value]}, b""
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
