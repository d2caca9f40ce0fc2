"""Tasks: documents to translate as steps between which sentences are decoded, here or in a process of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from sharpbeam.contract.steps import Job, Steps
from sharpbeam.decoding.results import Translation
from sharpbeam.documents import DocumentTranslation, TagOptions, document_steps, read_document, read_tagged
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.text.glossary import Glossary

CPU_SECONDS, CPU_SECONDS_PER_BYTE = 10.0, 40e-6
BEGIN = 20  # segments that show the language of a document

Answers = Sequence[Translation]
Advance = Callable[[Answers | None], Awaitable[tuple[bool, Any]]]  # of a task: as the function `advance`


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
    glossary: Glossary | None = None
    details: bool = False  # whether the result has its sentences, with their words
    tags: TagOptions | None = None  # what a client says of elements, of html and xml

    @property
    def cpu_seconds(self) -> float:
        """The processor time that it may take, whose formats all take linear time."""
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
        how = self.attends, self.glossary, self.details, self.details, self.target
        translation = yield from document_steps(document, self.options, self.source, *how)
        return translation if self.details else replace(translation, sentences=())


def advance(steps: Generator[Sequence[Job], Answers, Any], answers: Answers | None) -> tuple[bool, Any]:
    """Whether `steps` are done, and their result or their next jobs; None for the first ones."""
    try:
        return False, next(steps) if answers is None else steps.send(answers)
    except StopIteration as end:
        return True, end.value


@asynccontextmanager
async def inline(task: Task) -> AsyncIterator[Advance]:
    """The steps of a task in this process: of a text so small that they take some milliseconds at most.

    Details take longer, so another thread than that of the event loop works for them.
    """
    steps = task.steps()

    async def following(answers: Answers | None) -> tuple[bool, Any]:
        return await asyncio.to_thread(advance, steps, answers) if task.details else advance(steps, answers)

    yield following
