"""Score whole files: given translations by a translation model, or lines by a language model."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

from sharpbeam.api.scorer import Scorer, perplexity
from sharpbeam.api.translator import Translator
from sharpbeam.decoding.results import Answer
from sharpbeam.errors import InputError
from sharpbeam.jobs.chunks import engine_warnings, run_chunks
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.text.pairs import Pair

Put = Callable[[int, Answer], None]
"""Takes the index of a line, from 0, and its answer."""


def score_pairs(
    translator: Translator, pairs: Iterator[Pair], put: Put, options: DecodeOptions, ready: Callable[[], bool]
) -> None:
    """Call `put` with the score of each pair (source, translation), in order; raises InputError by its line."""
    count = 0

    def checked() -> Iterator[Pair]:
        for line, pair in enumerate(pairs, 1):
            if not pair[0].strip():
                raise InputError(f"the source of line {line} is empty; it has no translation to score.")
            yield pair

    def score(chunk: list[Pair]) -> Generator[tuple[int, Answer], None, None]:
        sources, targets = zip(*chunk, strict=True)
        try:
            yield from enumerate(translator.score(sources, targets, options=options))
        except InputError as error:
            raise InputError(f"{error} Target 0 is line {count + 1}.") from error

    def put_next(pair: Pair, answer: Answer) -> None:
        nonlocal count
        put(count, answer)
        count += 1

    with engine_warnings(lambda: count + 1):
        run_chunks(checked(), score, put_next, ready=ready)


def record(index: int, answer: Answer) -> dict[str, Any]:
    """A score as JSON."""
    scores = {"score": answer.score, "log_prob": answer.log_prob}
    return {"index": index, **scores, "tokens": list(answer.tokens), "token_scores": list(answer.token_scores)}


@dataclass
class TextScore:
    """The scores of a language model for several lines together."""

    lines: int = 0
    tokens: int = 0  # ends of lines included
    log_prob: float = 0.0

    @property
    def perplexity(self) -> float:
        """exp of the mean negative log probability of a token."""
        return perplexity(self.log_prob, self.tokens)


def score_lines(
    scorer: Scorer, lines: Iterator[str], put: Put, options: DecodeOptions, *, apart: bool, ready: Callable[[], bool]
) -> TextScore:
    """Call `put` with the score of each line, in order: by itself if `apart`, else after all lines before it."""
    total = TextScore()

    def put_next(line: object, answer: Answer) -> None:
        put(total.lines, answer)
        total.lines += 1
        total.tokens += len(answer.token_scores)
        total.log_prob += sum(answer.token_scores)

    def score(chunk: list[str]) -> Generator[tuple[int, Answer], None, None]:
        yield from enumerate(scorer.score(chunk, options=options))

    if apart:
        run_chunks(lines, score, put_next, ready=ready)
    else:
        for answer in scorer.score_stream(lines, options=options):
            put_next(None, answer)
    return total
