"""Attention of finished hypotheses: each one is fed to the model once more, without an output layer.

What a row attends to depends on its source and on the tokens before it alone, so this is what the search saw, and a
search that nobody asks for attention keeps nothing. It takes one more encoding of each source, and one row a step for
each hypothesis that is an answer, where the search had a row for each place on the beam.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sharpbeam.decoding.forced import feed, padded
from sharpbeam.errors import OptionError
from sharpbeam.models.interface import Attending, Model
from sharpbeam.types import Floats, Hypothesis, Request

AT_ONCE = 32  # requests that are fed together; so many that are done wait for each other

Result = tuple[int, list[Hypothesis]]


def open_attending(model: Model, option: str = "return_attention") -> Attending:
    """A decoding run of a model with attention; OptionError for another one names the `option` that needs it."""
    run = model.open()
    if not isinstance(run, Attending):
        raise OptionError(f"{option} is given; it must be left out for a model without attention to a source.")
    return run


def with_attention(
    model: Attending, found: Iterator[Result], requests: Mapping[int, Request], bos_id: int, eos_id: int, text: slice
) -> Iterator[Result]:
    """Yield the (request index, hypotheses) of `found`, in its order, with their attention. `requests` are by index.

    A hypothesis gets [T, S]: a column for each source token in `text`, and one for all others, eos and language tags.
    """
    waiting: list[Result] = []
    for result in found:
        waiting.append(result)
        if len(waiting) == AT_ONCE:
            yield from _attend(model, waiting, requests, bos_id, eos_id, text)
            waiting = []
    yield from _attend(model, waiting, requests, bos_id, eos_id, text)


def of_text(attention: Floats, text: slice) -> Floats:
    """Attention to a whole source [T, positions] as a column for each token in `text`, and the others' sum behind."""
    words = attention[:, text]
    if words.shape[1] == attention.shape[1] - 1 and not text.start:
        return attention  # eos alone, with its bits
    others = np.delete(attention, np.arange(attention.shape[1])[text], axis=1)
    return np.concatenate([words, others.sum(axis=1, keepdims=True)], axis=1)


def _attend(
    model: Attending,
    found: Sequence[Result],
    requests: Mapping[int, Request],
    bos_id: int,
    eos_id: int,
    text: slice,
) -> list[Result]:
    if not found:
        return []
    entering = np.array([index for index, _ in found], np.int32)
    state = model.admit([requests[index] for index, _ in found])
    many = [len(hypotheses) for _, hypotheses in found]
    request, state = entering.repeat(many), state.repeat(many)
    hypotheses = [hypothesis for _, group in found for hypothesis in group]
    targets = [np.array([*h.tokens, eos_id][: len(h.token_log_probs)], np.int32) for h in hypotheses]
    given, length = padded(targets, bos_id)
    size = [len(requests[index].source) for index in request.tolist()]
    attention: list[Floats] = [np.zeros(shape, np.float32) for shape in zip(length.tolist(), size, strict=True)]
    for t, rows, weights in feed(model.attend, model.retain, request, state, given, length, bos_id):
        for row, own in zip(rows.tolist(), weights, strict=True):
            attention[row][t] = own[: size[row]]
    model.evict(entering)
    attended = iter([replace(h, attention=of_text(a, text)) for h, a in zip(hypotheses, attention, strict=True)])
    return [(index, [next(attended) for _ in group]) for index, group in found]
