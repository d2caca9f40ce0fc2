"""Forced decoding: what the model thinks of given tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from quickbeam.models.door import Decoding
from quickbeam.projections.door import Projection
from quickbeam.schedule.batches import BatchQueue
from quickbeam.types import Floats, Ids


def force(
    model: Decoding, projection: Projection, targets: Mapping[int, Ids], bos_id: int, queue: BatchQueue
) -> Iterator[tuple[int, Floats]]:
    """Yield (request index, log probability of each of its target tokens [T]) for every request in the queue.

    `targets` holds the tokens of each request by its index, eos included where it should count; none is empty.
    """
    layer = projection.open()
    while (batch := queue.take()) is not None:
        state = model.admit(batch)
        layer.admit(batch)
        request = np.array([r.index for r in batch], np.int32)
        length = np.array([len(targets[r.index]) for r in batch])
        given = np.full((len(batch), length.max()), bos_id, np.int32)  # [B, T]
        for row, r in enumerate(batch):
            given[row, : length[row]] = targets[r.index]
        log_prob = np.zeros(given.shape, np.float32)
        rows = np.arange(len(batch))  # those whose target goes on
        token = np.full(len(batch), bos_id, np.int32)
        for t in range(given.shape[1]):
            if queue.closed:
                return
            hidden, state = model.step(request[rows], state, token)
            token = given[rows, t]
            log_prob[rows, t] = layer.log_prob(hidden, token, request[rows])
            longer = length[rows] > t + 1
            rows, state, token = rows[longer], state[longer], token[longer]
            model.retain(state)
        model.evict(request)
        layer.evict(request)
        for row, r in enumerate(batch):
            yield r.index, log_prob[row, : length[row]]
