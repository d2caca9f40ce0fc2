"""Steps of a document, decoded by a translator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sharpbeam.api.translator import Translator
from sharpbeam.contract.steps import Job, Steps
from sharpbeam.decoding.results import Translation
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.text.glossary import Glossary

R = TypeVar("R")


def run_steps(
    steps: Steps[R],
    translator: Translator,
    options: DecodeOptions,
    progress: Callable[[int], None] | None = None,
    glossary: Glossary | None = None,
) -> R:
    """Decode the jobs of `steps` with a translator; `progress` is called with the number of jobs that just finished.

    Each job has the terms of `glossary` that are in its text.
    """
    try:
        jobs = next(steps)
        while True:
            jobs = steps.send(_decode(jobs, translator, options, progress, glossary))
    except StopIteration as done:
        result: R = done.value
        return result


def _decode(
    jobs: Sequence[Job],
    translator: Translator,
    options: DecodeOptions,
    progress: Callable[[int], None] | None,
    glossary: Glossary | None,
) -> list[Translation]:
    groups: dict[tuple[tuple[str, Any], ...], list[int]] = {}
    for index, job in enumerate(jobs):
        groups.setdefault(tuple(sorted(job.changes.items())), []).append(index)
    found: dict[int, Translation] = {}
    for changes, indices in groups.items():
        texts = [jobs[index].text for index in indices]
        changed = options.changed(**dict(changes))
        answers = translator.translate(texts, raw=True, options=changed, progress=progress, glossary=glossary)
        found.update(zip(indices, answers, strict=True))
    return [found[index] for index in range(len(jobs))]
