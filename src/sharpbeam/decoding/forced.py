"""Forced decoding: log probabilities of the tokens of targets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.workers import run_workers
from sharpbeam.errors import ModelError
from sharpbeam.models.interface import Decoding
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.output_layers.interface import OutputLayer
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.types import Floats, Ids, Request

Indices = NDArray[np.intp]


def force(
    model: Decoding, output_layer: OutputLayer, targets: Mapping[int, Ids], bos_id: int, queue: RequestQueue
) -> Iterator[tuple[int, Floats]]:
    """Yield (request index, log probability of each of its target tokens [T]) for every request in the queue.

    `targets` holds the tokens of each request by its index, including eos if it should count; none is empty.
    """
    layer = output_layer.open()
    while batch := queue.take_batch():
        state = model.admit(batch)
        layer.admit(batch)
        request = np.array([r.index for r in batch], np.int32)
        tokens, length = padded([targets[r.index] for r in batch], bos_id)
        log_prob = np.zeros(tokens.shape, np.float32)
        for t, rows, hidden in feed(model.step, model.retain, request, state, tokens, length, bos_id):
            if queue.closed:
                return
            log_prob[rows, t] = sound(layer.log_prob(hidden, tokens[rows, t], request[rows]))
        model.evict(request)
        layer.evict(request)
        for row, r in enumerate(batch):
            yield r.index, log_prob[row, : length[row]]


def force_all(
    loaded: LoadedModel, requests: list[Request], targets: Mapping[int, Ids], options: DecodeOptions
) -> dict[int, Floats]:
    """Log probability of each target token [T], by request index, using all threads of the model."""
    model, output_layer, threads = loaded.model, loaded.output_layer(options), loaded.machine.workers
    queue = RequestQueue(requests, options.schedule.batch_tokens, threads)

    def work() -> Iterator[tuple[int, Floats]]:
        return force(model.open(), output_layer, targets, model.bos_id, queue)

    return dict(run_workers(work, queue.close, queue.batches(threads)))


def sound(log_prob: Floats) -> Floats:
    """`log_prob` [R] itself; raises ModelError where one is NaN or +inf."""
    if not (log_prob < np.inf).all():
        raise ModelError(
            "the model gave a log probability that is NaN or +inf; its weights are broken. "
            "Convert or train the model again."
        )
    return log_prob


def padded(targets: Sequence[Ids], bos_id: int) -> tuple[Ids, Indices]:
    """The targets of n rows as [n, T], padded with bos at the end; and their lengths [n]."""
    length = np.array([len(target) for target in targets])
    tokens = np.full((len(targets), length.max()), bos_id, np.int32)
    for row, target in enumerate(targets):
        tokens[row, : length[row]] = target
    return tokens, length


def feed(
    step: Callable[[Ids, Ids, Ids], tuple[Floats, Ids]],
    retain: Callable[[Ids], None],
    request: Ids,
    state: Ids,
    tokens: Ids,
    length: Indices,
    bos_id: int,
) -> Iterator[tuple[int, Indices, Floats]]:
    """Feed bos and then the targets `tokens` [n, T] of `length` [n] to rows of `request` [n] in `state` [n].

    Yields for each position t the rows that have a token there, and the output of `step` for them, which is a method of
    the model.
    """
    rows = np.flatnonzero(length)
    state, token = state[rows], np.full(len(rows), bos_id, np.int32)
    for t in range(tokens.shape[1]):
        output, state = step(request[rows], state, token)
        yield t, rows, output
        longer = length[rows] > t + 1
        rows, state = rows[longer], state[longer]
        token = tokens[rows, t]
        retain(state)
