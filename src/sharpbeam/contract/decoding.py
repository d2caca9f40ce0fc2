"""Lines to translations with the text contract, in rounds of a decoder that takes texts as they stand."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

from sharpbeam.contract.lines import is_plain, line_steps, one_step
from sharpbeam.contract.sentences import Contract
from sharpbeam.contract.steps import Job, Steps
from sharpbeam.decoding.inputs import check_texts
from sharpbeam.decoding.results import Translation
from sharpbeam.options.decode import DecodeOptions

Results = Generator[tuple[int, Translation], None, None]
Decode = Callable[[Sequence[str], DecodeOptions], Results]
Place = tuple[int, int]  # index of a line and of a job in its round


def decode_lines(
    texts: Sequence[str],
    decode: Decode,
    options: DecodeOptions,
    open_contract: Callable[[], Contract],
    pattern: re.Pattern[str] | None = None,
) -> Results:
    """Yield (index in `texts`, translation) as lines are done.

    Options and texts are checked at once. A line in which there is nothing to protect is decoded as it stands. The user
    wants spans of `pattern` to be protected.
    """
    check_texts(texts, "text")
    plain = [is_plain(text) and not (pattern and pattern.search(text)) for text in texts]
    if all(plain):
        return decode(texts, options)
    contract = replace(open_contract(), pattern=pattern)
    pairs = zip(texts, plain, strict=True)
    rounds = _Rounds([one_step(text) if usual else line_steps(text, contract) for text, usual in pairs])
    done = list(rounds.advance(dict.fromkeys(range(len(texts)))))
    list(decode([], options))  # checks the options
    first = rounds.begin(decode, options)

    def results() -> Results:
        yield from done
        groups = first
        while groups:
            for places, begin in groups:
                with closing(begin()) as answers:
                    for number, answer in answers:
                        yield from rounds.put(places[number], answer)
            groups = rounds.begin(decode, options)

    return results()


class _Rounds:
    """The lines that are not done, their jobs and the answers to these so far."""

    def __init__(self, steps: Sequence[Steps[Translation]]) -> None:
        self._steps = steps
        self._jobs: dict[int, Sequence[Job]] = {}  # of the next round
        self._answers: dict[int, dict[int, Translation]] = {}  # by line and number of the job
        self._counts: dict[int, int] = {}  # of jobs

    def advance(self, answers: Mapping[int, Sequence[Translation] | None]) -> Iterator[tuple[int, Translation]]:
        """Send answers to lines; yields those that are done."""
        for index, own in answers.items():
            steps = self._steps[index]
            try:
                self._jobs[index] = next(steps) if own is None else steps.send(own)
            except StopIteration as done:
                yield index, done.value

    def begin(self, decode: Decode, options: DecodeOptions) -> list[tuple[list[Place], Callable[[], Results]]]:
        """Begin a round: the places of jobs that are decoded together, and what decodes them."""
        groups: dict[tuple[tuple[str, Any], ...], list[tuple[Place, str]]] = {}
        for index, jobs in self._jobs.items():
            for number, job in enumerate(jobs):
                groups.setdefault(tuple(sorted(job.changes.items())), []).append(((index, number), job.text))
        self._counts = {index: len(jobs) for index, jobs in self._jobs.items()}
        self._jobs = {}
        begun: list[tuple[list[Place], Callable[[], Results]]] = []
        for changes, slots in groups.items():
            begin = partial(decode, [text for _, text in slots], options.changed(**dict(changes)))
            begun.append(([place for place, _ in slots], begin))
        return begun

    def put(self, place: Place, answer: Translation) -> Iterator[tuple[int, Translation]]:
        """Take note of an answer; yields the line if it was its last one."""
        index, number = place
        own = self._answers.setdefault(index, {})
        own[number] = answer
        if len(own) == self._counts[index]:
            del self._answers[index]
            yield from self.advance({index: [own[each] for each in range(len(own))]})
