"""Random models, options, orders and limits: what must hold for any of them, in many thousands of cases.

The model is a table. A state is one of a few hundred numbers, the next one a hash of it and the token; each has log
probabilities that are rounded, so that many are equal, some of them -inf. No state is ever copied or freed, so the
fuzz is about searches and schedules alone; misused handles are found by the toy models of tests/.

Of each case: a stream with random limits, fed in a random order, answers as batches do, and the first request as the
reference does (tests/reference/beam.py); scores are sums over
length ** penalty, best first; no answer comes twice; none is too long; the proven rule answers as searching to the
end. And a log probability that is NaN or +inf is refused by name. One line is recorded for each thousand cases, and
those that the same commit has already are not tried again.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
import typer
from reference.beam import reference_search

from bench.harness import record
from sharpbeam.decoding.loop import decode
from sharpbeam.errors import ModelError
from sharpbeam.models.interface import Decoding
from sharpbeam.options.decode import ScheduleOptions, SearchOptions
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Floats, Footprint, Hypothesis, Ids, Request, TopK

BOS, EOS, VOCAB, STATES = 1, 2, 11, 251
REQUESTS = 20  # of a case
BLOCK = 1000  # cases of a recorded line
FOOTPRINT = Footprint(row=100, position=10)
Answers = dict[int, list[Hypothesis]]


class TableModel(RowLayer, Decoding):
    """Model, decoding run and output layer in one: nothing but tables."""

    vocab_size = VOCAB

    def __init__(self, seed: int, steps: int, eos_bias: float, impossible: float) -> None:
        """Log probabilities are rounded to 1 / `steps`; the share `impossible` of them is -inf."""
        draw = np.random.default_rng(seed)
        logits = draw.normal(0.0, 2.0, (STATES, VOCAB))
        logits[:, EOS] += eos_bias
        logits[draw.random((STATES, VOCAB)) < impossible] = -np.inf
        logits[:, 3] = np.where(np.isinf(logits).all(axis=1), 0.0, logits[:, 3])  # something always follows
        log_prob = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        rounded = (np.round(log_prob * steps) / steps).astype(np.float32)
        self.token = (-rounded).argsort(axis=1, kind="stable").astype(np.int32)
        self.sorted = np.minimum(np.take_along_axis(rounded, self.token.astype(np.intp), axis=1), 0.0)

    def admit(self, requests: Sequence[Request]) -> Ids:
        return np.array([int((r.source * np.arange(7, 7 + len(r.source))).sum()) % STATES for r in requests], np.int32)

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        following = (state * 31 + token * 17 + 5) % STATES
        return following.astype(np.float32)[:, None], following.astype(np.int32)

    def retain(self, state: Ids) -> None:
        pass

    def evict(self, request: Ids) -> None:
        pass

    def next_log_probs(self, request: Request) -> Callable[[tuple[int, ...]], Floats]:
        """Log probabilities [V] of what may follow the tokens of a hypothesis of `request`."""

        def after(tokens: tuple[int, ...]) -> Floats:
            state = self.admit([request])
            for token in (BOS, *tokens):
                hidden, state = self.step(state, state, np.array([token], np.int32))
            return self.log_prob(hidden.repeat(VOCAB, axis=0), np.arange(VOCAB, dtype=np.int32))

        return after

    def topk(self, hidden: Floats, k: int) -> TopK:
        state = hidden[:, 0].astype(np.intp)
        return TopK(self.sorted[state, :k].copy(), self.token[state, :k].copy())

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        state = hidden[:, 0].astype(np.intp)
        result: Floats = self.sorted[state][self.token[state] == token[:, None]]
        return result


def case(seed: int) -> list[str]:
    """Promises broken in the case `seed`."""
    draw = random.Random(seed)
    model = TableModel(seed, draw.choice([1, 4, 1000]), draw.choice([-1.0, 1.0, 3.0]), draw.choice([0.0, 0.2, 0.6]))
    requests = [
        Request(i, np.array([draw.randrange(3, 64) for _ in range(draw.randrange(1, 9))], np.int32))
        for i in range(REQUESTS)
    ]
    options = random_search(draw)
    expected = run(model, requests, options, ScheduleOptions(batch_tokens=draw.choice([1, 30, 1000])))
    schedule = random_schedule(draw)
    result = run(model, draw.sample(requests, REQUESTS), options, schedule)
    wrong = [] if result == expected else [f"seed {seed}: {schedule} does not answer as batches, {options}"]
    if not _as_the_reference(model, requests[0], options, expected[0]):
        wrong.append(f"seed {seed}: the answer is not the one of the reference, {options}")
    if sorted(expected) != list(range(REQUESTS)):
        wrong.append(f"seed {seed}: not every request was answered once, {options}")
    wrong += [
        f"seed {seed}: {message}, {options}" for answers in expected.values() for message in _invalid(answers, options)
    ]
    if options.early_stopping == "proven":
        sure = dataclasses.replace(options, early_stopping="exhaustive")
        if run(model, requests, sure, ScheduleOptions()) != expected:
            wrong.append(f"seed {seed}: proven is not exhaustive, {options}")
    if seed % 10 == 0 and not _refuses(model, requests, options, draw.choice([np.nan, np.inf])):
        wrong.append(f"seed {seed}: a log probability that is no number passed, {options}")
    return wrong


def misses(cases: int, first: int = 0) -> list[str]:
    """Promises broken in `cases` cases of `REQUESTS` requests each."""
    return [message for seed in range(first, first + cases) for message in case(seed)]


def measure(cases: int, first: int) -> list[str]:
    """The same in recorded blocks."""
    wrong: list[str] = []
    for begin in range(first, first + cases, BLOCK):
        size = min(BLOCK, first + cases - begin)
        options = {"first": begin, "cases": size, "requests": REQUESTS}
        line = record.find("fuzz", options)
        if line is None:
            line = record.write("fuzz", {"wrong": misses(size, begin)}, threads=1, options=options)
        wrong += line["wrong"]
    return wrong


def random_search(draw: random.Random) -> SearchOptions:
    """Options of beam search."""
    beam = draw.randrange(1, 6)
    return SearchOptions(
        beam_size=beam,
        return_scores=True,
        num_hypotheses=draw.randrange(1, beam + 1),
        length_penalty=draw.choice([-1.0, 0.0, 0.6, 1.0, 2.0]),
        early_stopping=draw.choice(["true", "false", "never", "proven", "exhaustive"]),
        max_score_margin=draw.choice([None, None, 0.5, 2.0]),
        max_score_ratio=draw.choice([None, None, 1.5]),
        max_children=draw.choice([None, 1, 3]),
        stop_margin=draw.choice([None, None, None, 1.0]),
        finishing=draw.choice(["leave", "stay"]),
        min_length=draw.choice([0, 0, 2]),
        max_length=draw.choice([3, 8, 12]),
    )


def random_schedule(draw: random.Random) -> ScheduleOptions:
    """A stream with limits."""
    return ScheduleOptions(
        schedule=draw.choice(["stream", "stream-shortest", "stream-longest"]),
        max_rows=draw.choice([1, 9, 30, 200]),
        refill_at=draw.choice([0.0, 1 / 6, 0.9]),
        max_step_rows=draw.choice([1, 4, 12]),
        max_wait=draw.choice([None, 1, 4]),
        max_memory=draw.choice([None, 1, 3000, 10000]),
    )


def run(
    model: TableModel,
    requests: list[Request],
    options: SearchOptions,
    schedule: ScheduleOptions,
) -> Answers:
    """The answers of beam search."""
    search = BeamSearch(options, BOS, EOS, VOCAB)
    plan = Plan(requests, schedule, options.most_rows, 1, FOOTPRINT)
    return dict(decode(model, model, search, plan.schedule()))


def _as_the_reference(model: TableModel, request: Request, options: SearchOptions, answers: list[Hypothesis]) -> bool:
    """Whether tokens and log probabilities are those of tests/reference/beam.py."""
    expected = reference_search(model.next_log_probs(request), options, EOS)
    ended = [(beam.tokens[:-1] if beam.tokens[-1:] == (EOS,) else beam.tokens, beam.log_probs) for beam in expected]
    return [(answer.tokens, answer.token_log_probs) for answer in answers] == ended


def _invalid(answers: list[Hypothesis], options: SearchOptions) -> list[str]:
    """Faults of the answers of one request."""
    wrong = []
    if not 1 <= len(answers) <= options.num_hypotheses:
        wrong.append(f"{len(answers)} answers")
    if len({(*hypothesis.tokens, len(hypothesis.token_log_probs)) for hypothesis in answers}) < len(answers):
        wrong.append("an answer comes twice")
    scores = [hypothesis.score for hypothesis in answers]
    if scores != sorted(scores, reverse=True):
        wrong.append("answers are not in order")
    for hypothesis in answers:
        length = len(hypothesis.token_log_probs)
        if length > options.max_length or EOS in hypothesis.tokens:
            wrong.append("an answer is too long, or continues after eos")
        total = 0.0
        for log_prob in hypothesis.token_log_probs:
            total += log_prob
        if total != hypothesis.log_prob or hypothesis.score != total / max(length, 1) ** options.length_penalty:
            wrong.append("a score is not its sum over length ** penalty")
    return wrong


def _refuses(model: TableModel, requests: list[Request], options: SearchOptions, value: float) -> bool:
    """Whether a model whose every state may say `value` is refused by name."""
    broken = TableModel(1, 4, 0.0, 0.0)
    broken.sorted = model.sorted.copy()
    broken.sorted[:, 0] = value
    try:
        run(broken, requests, options, ScheduleOptions())
    except ModelError as error:
        return "NaN or +inf" in str(error)
    return False


def main(
    cases: Annotated[int, typer.Option(help=f"each has {REQUESTS} requests")] = 5000,
    first: Annotated[int, typer.Option(help="the seed of the first case")] = 0,
) -> None:
    """Measure, print and record."""
    wrong = measure(cases, first)
    print(f"{cases * REQUESTS} requests, {len(wrong)} misses")
    print("\n".join(wrong[:20]))
