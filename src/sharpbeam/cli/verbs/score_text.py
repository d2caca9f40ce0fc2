"""The part of `sharpbeam score` for language models: the score of each line, and the perplexity of all."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

from sharpbeam.api.scorer import Scorer, perplexity
from sharpbeam.decoding.results import Answer
from sharpbeam.errors import InputError
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.jobs.translate_file import CHUNK
from sharpbeam.options.decode import MachineOptions
from sharpbeam.text.lines import read_lines


def score_text(
    model: str,
    text: Path | None,
    apart: bool,
    length_penalty: float,
    render: Callable[[int, Answer], str],
    machine: MachineOptions,
) -> None:
    """Write each line's score to stdout; log probability and perplexity of all lines to stderr."""
    scorer = Scorer(model, machine=machine)
    lines = read_lines(text)
    score = partial(_apart, scorer) if apart else scorer.score_stream
    answers = score(lines, length_penalty=length_penalty)
    number, words, log_prob = 0, 0, 0.0
    with progress_bar("scoring", None) as bar:
        while chunk := list(islice(answers, CHUNK)):
            result = "".join(render(number + i, answer) for i, answer in enumerate(chunk))
            with bar.aside():
                sys.stdout.buffer.write(result.encode())
                sys.stdout.buffer.flush()
            number += len(chunk)
            words += sum(len(answer.token_scores) for answer in chunk)
            log_prob += sum(answer.log_prob for answer in chunk)
            bar(len(chunk))
    if not number:
        raise InputError(f"{text or 'standard input'} is empty; there is nothing to score.")
    figures = f"log_prob {log_prob:.3f}, perplexity {perplexity(log_prob, words):.3f}"
    print(f"{number} lines, {words} words with the ends of lines: {figures}", file=sys.stderr)


def _apart(scorer: Scorer, lines: Iterator[str], length_penalty: float) -> Iterator[Answer]:
    while chunk := list(islice(lines, CHUNK)):
        yield from scorer.score(chunk, length_penalty=length_penalty)
