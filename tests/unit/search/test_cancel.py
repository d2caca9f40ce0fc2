"""A cancelled request leaves no trace: the others are answered as if it had never been there."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from support.toys import BOS, EOS, ToyLayer, ToyModel, toy_requests

from sharpbeam.decoding.loop import ForwardPass
from sharpbeam.options.decode import SamplingOptions, SearchOptions
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.interface import Search
from sharpbeam.search.native import Expansion, SamplingSearch
from sharpbeam.types import Hypothesis, Prefix, Request

VOCAB = 20
OPTIONS = SearchOptions(return_scores=True, beam_size=3, num_hypotheses=3, max_length=12, early_stopping="proven")
CUBE = SearchOptions(return_scores=True, beam_size=3, num_hypotheses=3, max_length=12, cube_pruning="exact")
MAKERS: dict[str, Callable[[], Search]] = {
    "beam": lambda: BeamSearch(OPTIONS, BOS, EOS, VOCAB),
    "cube": lambda: BeamSearch(CUBE, BOS, EOS, VOCAB),
    "sampling": lambda: SamplingSearch(OPTIONS, SamplingOptions(seed=3), BOS, EOS, VOCAB),
    "expansion": lambda: Expansion(OPTIONS, BOS, EOS, VOCAB),
}


def decode(search: Search, requests: list[Request], cancelled: dict[int, int]) -> dict[int, list[Hypothesis]]:
    """Decode `requests` as one batch; `cancelled` maps a request to the number of steps it lives."""
    toy = ToyModel(seed=5, vocab=VOCAB, eos_bias=-2.0)
    model, layer = toy.open(), ToyLayer(*toy.output()).open()
    forward = ForwardPass(model, layer)
    rows, answers, steps = search.begin(requests, model.admit(requests)), {}, 0
    while len(rows):
        for request in [index for index, lives in cancelled.items() if lives == steps and index not in answers]:
            search.cancel(request)
            rows = rows.select(rows.request != request)
        moved = search.step(rows, forward)
        rows, steps = moved.rows, steps + 1
        answers |= moved.finished
        model.retain(rows.state)
    return answers


def prefixed(requests: list[Request]) -> list[Request]:
    """Requests of which each has a forced prefix of three tokens."""
    forced = Prefix(np.array([4, 5, 6], np.int32), np.zeros(3, np.float32))
    return [Request(request.index, request.source, forced) for request in requests]


@pytest.mark.parametrize("name", MAKERS)
def test_the_others_are_answered_as_if_a_cancelled_request_had_never_been_there(name: str) -> None:
    requests = prefixed(toy_requests(6, seed=2))
    expected = decode(MAKERS[name](), requests, {})
    assert sorted(expected) == list(range(6))
    result = decode(MAKERS[name](), requests, {1: 0, 3: 1, 5: 2})
    assert result == {index: expected[index] for index in (0, 2, 4)}


@pytest.mark.parametrize("name", MAKERS)
def test_a_cancelled_index_can_be_used_again(name: str) -> None:
    """As when every request in flight is cancelled, and the next ones have the same names."""
    search, requests = MAKERS[name](), toy_requests(3, seed=2)
    search.begin(requests, np.arange(3, dtype=np.int32))
    for request in requests:
        search.cancel(request.index)
    assert decode(search, requests, {}) == decode(MAKERS[name](), requests, {})


@pytest.mark.parametrize("name", MAKERS)
def test_a_request_that_is_not_in_flight_is_refused(name: str) -> None:
    with pytest.raises(KeyError):
        MAKERS[name]().cancel(7)
    with pytest.raises(KeyError):
        MAKERS[name]().peek(7, -1)
