"""The layer over a shortlist: exact logits of each row's own set."""

from __future__ import annotations

import numpy as np
import pytest
from support.made_layers import SOURCES, made_requests, normal, opened, whole

from sharpbeam._core import table_names
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.shortlist import Shortlist, ShortlistLayer
from sharpbeam.types import Request

TABLES = table_names()
TOLERANCE = 2e-5  # of a log probability, as for the exact layer
NOTHING = np.empty(0, np.int32)


def make_shortlist(seed: int, vocab: int, longest: int = 12) -> Shortlist:
    """Lists of random lengths, some of them empty, in random order."""
    draw = np.random.default_rng(seed)
    lists = [draw.permutation(vocab)[: draw.integers(0, longest)] for _ in range(SOURCES)]
    start = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    always = np.sort(draw.permutation(vocab)[: draw.integers(1, 4)]).astype(np.int32)
    return Shortlist(always, start, np.concatenate(lists).astype(np.int32))


def test_the_set_of_a_source():
    shortlist = Shortlist(np.int32([0, 7]), np.int32([0, 2, 2, 5]), np.int32([9, 3, 8, 7, 1]))
    for source, tokens in (([1], [0, 7]), ([0], [0, 3, 7, 9]), ([2, 0, 2], [0, 1, 3, 7, 8, 9]), ([], [0, 7])):
        result = shortlist.tokens(np.array(source, np.int32))
        assert result.tolist() == tokens and result.dtype == np.int32


@pytest.mark.parametrize("isa", TABLES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (9, 5, 9), (60, 33, 130), (100, 70, 257), (200, 64, 64)])
def test_as_the_reference_where_sums_are_exact(isa, shape):
    rows, dim, vocab = shape
    weight, bias, hidden = whole(0, vocab, dim), whole(1, vocab), whole(2, rows, dim)
    shortlist = make_shortlist(3, vocab, min(12, vocab))
    requests = {request.index: request for request in made_requests(6)}
    request = np.random.default_rng(5).choice(list(requests), rows).astype(np.int32)
    run = opened(ShortlistLayer(weight, bias, shortlist, isa), list(requests.values()))
    logits = hidden.astype(np.float64) @ weight.T.astype(np.float64) + bias
    for k in {1, min(5, vocab), vocab}:
        top = run.topk(hidden, k, request)
        for row, index in enumerate(request.tolist()):
            tokens = shortlist.tokens(requests[index].source)
            own = logits[row, tokens]
            log_prob = own - own.max() - np.log(np.exp(own - own.max()).sum())
            order = np.argsort(-own, kind="stable")[:k]
            assert top.token[row, : len(order)].tolist() == tokens[order].tolist()
            np.testing.assert_allclose(top.log_prob[row, : len(order)], log_prob[order], atol=TOLERANCE, rtol=0)
            assert (top.log_prob[row, len(order) :] == -np.inf).all() and (top.token[row, len(order) :] == 0).all()


@pytest.mark.parametrize("isa", TABLES)
def test_full_sets_are_the_exact_layer_bit_for_bit(isa):
    weight, bias, hidden = normal(0, 333, 50), normal(1, 333), normal(2, 70, 50)
    everything = np.arange(333, dtype=np.int32)
    full = Shortlist(everything, np.zeros(SOURCES + 1, np.int32), NOTHING)
    exact, requests = ExactLayer.build(weight, bias, isa), made_requests(7)
    run = opened(ShortlistLayer(weight, bias, full, isa), requests)
    request = np.sort(np.random.default_rng(5).choice([r.index for r in requests], 70)).astype(np.int32)
    for k in (1, 7, 333):
        got, expected = run.topk(hidden, k, request), exact.topk(hidden, k)
        assert got.log_prob.tobytes() == expected.log_prob.tobytes()
        assert got.token.tobytes() == expected.token.tobytes()
    token = np.arange(70, dtype=np.int32)
    assert run.log_prob(hidden, token, request).tobytes() == exact.log_prob(hidden, token).tobytes()


def test_hostile_shortlists_are_refused():
    weight, bias = normal(0, 20, 4), normal(1, 20)
    none, one = np.zeros(SOURCES + 1, np.int32), np.zeros(1, np.int32)

    def refused(shortlist: Shortlist, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            ShortlistLayer(weight, bias, shortlist)

    for tokens in ([3, 3], [4, 3], [-1], [20]):
        refused(Shortlist(np.int32(tokens), none, NOTHING), "the tokens must ascend, from 0 to 19")
    refused(Shortlist(NOTHING, none, NOTHING), "always has no tokens")
    refused(Shortlist(one, np.int32([0, 1]), np.int32([20])), r"token\[0\] is 20; it must be from 0 to 19")
    refused(Shortlist(one, np.int32([1, 1]), one), r"start\[0\] is 1; start must rise from 0")
    refused(Shortlist(one, np.int32([0, 2, 1]), one), r"start\[2\] is 1; start must rise from 0")
    refused(Shortlist(one, NOTHING, NOTHING), "start is empty")
    refused(Shortlist(one, np.int32([0, 9]), one), r"token has the shape \[1\]; it must be \[9\]")
    short = ShortlistLayer(weight, bias, Shortlist(one, np.zeros(2, np.int32), NOTHING)).open()
    for source in (-1, 1):
        with pytest.raises(ValueError, match=f"a source token is {source}; the shortlist knows 0 to 0"):
            short.admit([Request(0, np.array([source], np.int32))])
