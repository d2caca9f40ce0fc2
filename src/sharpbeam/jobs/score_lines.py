"""Score whole files: given translations by a translation model, or lines by a language model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

from sharpbeam.api.scorer import Scorer
from sharpbeam.api.translator import Translator
from sharpbeam.decoding.results import Answer
from sharpbeam.errors import InputError
from sharpbeam.jobs.chunks import chunked_answers
from sharpbeam.text.lines import Pair, TextInput


def score_pairs(translator: Translator, pairs: Iterator[Pair], ready: Callable[[], bool]) -> Iterator[Answer]:
    """The score of each pair (source, translation), in order; raises InputError by its line."""
    line = 1

    def checked() -> Iterator[Pair]:
        for number, pair in enumerate(pairs, 1):
            if not pair[0].strip():
                raise InputError(f"the source of line {number} is empty; it has no translation to score.")
            yield pair

    def score(chunk: list[Pair]) -> Generator[tuple[int, Answer], None, None]:
        sources, targets = zip(*chunk, strict=True)
        try:
            yield from enumerate(translator.score(sources, targets))
        except InputError as error:
            raise InputError(f"{error} Target 0 is line {line}.") from error

    with closing(chunked_answers(checked(), score, ready=ready)) as answers:
        for _, answer in answers:
            yield answer
            line += 1


def score_lines(scorer: Scorer, lines: TextInput, apart: bool) -> Iterator[Answer]:
    """The score of each line, in order: by itself if `apart`, else after all lines before it."""

    def score(chunk: list[str]) -> Generator[tuple[int, Answer], None, None]:
        yield from enumerate(scorer.score(chunk))

    if not apart:
        return scorer.score_stream(lines)
    return (answer for _, answer in chunked_answers(iter(lines), score, ready=lines.ready))


def record(index: int, answer: Answer) -> dict[str, Any]:
    """A score as JSON."""
    scores = {"score": answer.score, "log_prob": answer.log_prob}
    return {"index": index, **scores, "tokens": list(answer.tokens), "token_scores": list(answer.token_scores)}
