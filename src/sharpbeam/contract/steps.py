"""Decoding jobs: what a text asks a decoder for, so that a batch, a session or a server can do it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sharpbeam.decoding.inputs import Forced
from sharpbeam.decoding.results import Translation
from sharpbeam.options.decode import DecodeOptions

R = TypeVar("R")
Results = Generator[tuple[int, Translation], None, None]
Decode = Callable[[Sequence[str], DecodeOptions, Sequence[Forced | None] | None], Results]


@dataclass(frozen=True, slots=True)
class Job:
    """A text to decode as it stands, and what is changed in the options for it: {"return_attention": True}."""

    text: str
    changes: dict[str, Any] = field(default_factory=dict)
    begin: Forced | None = None  # what its answers begin with


Steps = Generator[Sequence[Job], Sequence[Translation], R]
"""Yields jobs and is sent their translations, in the same order; returns the result. It does no decoding itself."""


def decode_jobs(jobs: Sequence[Job], decode: Decode, options: DecodeOptions) -> Results:
    """Yield (index in `jobs`, translation) as they are done; those that change the options alike go together."""
    groups: dict[tuple[tuple[str, Any], ...], list[int]] = {}
    for index, job in enumerate(jobs):
        groups.setdefault(tuple(sorted(job.changes.items())), []).append(index)
    for changes, indices in groups.items():
        own = [jobs[index] for index in indices]
        begin = [job.begin for job in own] if any(job.begin for job in own) else None
        with closing(decode([job.text for job in own], options.changed(**dict(changes)), begin)) as decoded:
            yield from ((indices[place], answer) for place, answer in decoded)


def together(steps: Sequence[Steps[R]]) -> Steps[list[R]]:
    """Run `steps` side by side: the jobs of all are yielded at once; returns their results in order."""
    results: dict[int, R] = {}
    answers: dict[int, Sequence[Translation] | None] = dict.fromkeys(range(len(steps)))
    while answers:
        jobs: dict[int, Sequence[Job]] = {}
        for index, own in answers.items():
            try:
                jobs[index] = next(steps[index]) if own is None else steps[index].send(own)
            except StopIteration as done:
                results[index] = done.value
        if not jobs:
            break
        decoded = iter((yield [job for own in jobs.values() for job in own]))
        answers = {index: [next(decoded) for _ in own] for index, own in jobs.items()}
    return [results[index] for index in range(len(steps))]
