"""The shortlist output layer: exact logits on the set of a row's request, a full set = the exact output_layer."""

from __future__ import annotations

import numpy as np
import pytest

from sharpbeam._core import table_names
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.fitted import Shortlist
from sharpbeam.output_layers.native import NativeRun
from sharpbeam.output_layers.shortlist import ShortlistLayer
from sharpbeam.types import Request

TABLES = table_names()
TOLERANCE = 2e-5  # of a log probability, as for the exact output layer
SOURCES = 40


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def whole(seed: int, *shape: int) -> np.ndarray:
    """Small whole numbers: every product and sum is exact, and many logits are equal."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def make_shortlist(seed: int, vocab: int, longest: int = 12) -> Shortlist:
    """Lists of random lengths, some of them empty, in random order."""
    draw = np.random.default_rng(seed)
    lists = [draw.permutation(vocab)[: draw.integers(0, longest)] for _ in range(SOURCES)]
    start = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    always = np.sort(draw.permutation(vocab)[: draw.integers(1, 4)]).astype(np.int32)
    return Shortlist(always, start, np.concatenate(lists).astype(np.int32))


def make_requests(seed: int, count: int) -> list[Request]:
    draw = np.random.default_rng(seed)
    return [Request(10 * i, draw.integers(0, SOURCES, draw.integers(1, 9)).astype(np.int32)) for i in range(count)]


def opened(weight, bias, shortlist: Shortlist, requests: list[Request], isa: str = "auto") -> NativeRun:
    run = ShortlistLayer(weight, bias, shortlist, isa).open()
    run.admit(requests)
    return run


def test_the_words_of_a_source():
    start = np.array([0, 2, 2, 5], np.int32)
    shortlist = Shortlist(np.array([0, 7], np.int32), start, np.array([9, 3, 8, 7, 1], np.int32))
    for source, words in (([1], [0, 7]), ([0], [0, 3, 7, 9]), ([2, 0, 2], [0, 1, 3, 7, 8, 9]), ([], [0, 7])):
        found = shortlist.words(np.array(source, np.int32))
        assert found.tolist() == words and found.dtype == np.int32


@pytest.mark.parametrize("isa", TABLES)
@pytest.mark.parametrize("shape", [(1, 1, 1), (9, 5, 9), (60, 33, 130), (100, 70, 257), (200, 64, 64)])
def test_as_the_reference_where_sums_are_exact(isa, shape):
    rows, dim, vocab = shape
    weight, bias, hidden = whole(0, vocab, dim), whole(1, vocab), whole(2, rows, dim)
    shortlist, requests = make_shortlist(3, vocab, min(12, vocab)), make_requests(4, 6)
    request = np.random.default_rng(5).choice([r.index for r in requests], rows).astype(np.int32)
    logits = hidden.astype(np.float64) @ weight.T.astype(np.float64) + bias
    run = opened(weight, bias, shortlist, requests, isa)
    for k in {1, min(5, vocab), vocab}:
        top = run.topk(hidden, k, request)
        for row, index in enumerate(request.tolist()):
            words = shortlist.words(requests[index // 10].source)
            own = logits[row, words]
            log_prob = own - own.max() - np.log(np.exp(own - own.max()).sum())
            order = np.argsort(-own, kind="stable")[:k]  # truth 4: ties by lower id
            found = len(order)
            assert top.token[row, :found].tolist() == words[order].tolist()
            np.testing.assert_allclose(top.log_prob[row, :found], log_prob[order], atol=TOLERANCE, rtol=0)
            assert (top.log_prob[row, found:] == -np.inf).all() and (top.token[row, found:] == 0).all()


@pytest.mark.parametrize("isa", TABLES)
def test_full_sets_are_the_exact_projection_byte_for_byte(isa):
    weight, bias, hidden = normal(0, 333, 50), normal(1, 333), normal(2, 70, 50)
    everything = Shortlist(np.arange(333, dtype=np.int32), np.zeros(SOURCES + 1, np.int32), np.empty(0, np.int32))
    exact, requests = ExactLayer.build(weight, bias, isa), make_requests(1, 7)
    run = opened(weight, bias, everything, requests, isa)
    request = np.sort(np.random.default_rng(5).choice([r.index for r in requests], 70)).astype(np.int32)
    for k in (1, 7, 333):
        got, wanted = run.topk(hidden, k, request), exact.topk(hidden, k)
        assert got.log_prob.tobytes() == wanted.log_prob.tobytes()
        assert got.token.tobytes() == wanted.token.tobytes()
    token = np.arange(70, dtype=np.int32)
    assert run.log_prob(hidden, token, request).tobytes() == exact.log_prob(hidden, token).tobytes()


def test_every_table_gives_the_same_bytes_and_forced_scores_are_those_of_topk():
    weight, bias, hidden = normal(0, 300, 70), normal(1, 300), normal(2, 60, 70)
    shortlist, requests = make_shortlist(3, 300, 100), make_requests(4, 5)
    request = np.repeat([r.index for r in requests], 12).astype(np.int32)
    answers = set()
    for isa in TABLES:
        run = opened(weight, bias, shortlist, requests, isa)
        top = run.topk(hidden, 6, request)
        answers.add(top.log_prob.tobytes() + top.token.tobytes())
        for j in range(6):
            token = np.ascontiguousarray(top.token[:, j])
            inside = top.log_prob[:, j] > -np.inf
            forced = run.log_prob(hidden, token, request)
            assert forced[inside].tobytes() == top.log_prob[inside, j].tobytes()
    assert len(answers) == 1
    outside = np.array([min(set(range(300)) - set(shortlist.words(r.source).tolist())) for r in requests], np.int32)
    assert (run.log_prob(hidden, outside.repeat(12), request) == -np.inf).all()


@pytest.mark.parametrize("rows", [1, 2, 7, 49, 160])
def test_a_row_alone_is_the_row_in_its_batch(rows):
    weight, bias, hidden = normal(0, 200, 65), normal(1, 200), normal(2, rows, 65)
    shortlist, requests = make_shortlist(3, 200, 60), make_requests(4, 3)
    request = np.random.default_rng(5).choice([r.index for r in requests], rows).astype(np.int32)
    run = opened(weight, bias, shortlist, requests)
    batch, turned = run.topk(hidden, 9, request), run.topk(hidden[::-1].copy(), 9, request[::-1].copy())
    assert turned.log_prob[::-1].tobytes() == batch.log_prob.tobytes()
    for row in range(rows):
        by_index = {r.index: r for r in requests}
        single = opened(weight, bias, shortlist, [by_index[int(request[row])]])
        alone = single.topk(hidden[row : row + 1], 9, request[row : row + 1])
        assert alone.log_prob.tobytes() == batch.log_prob[row : row + 1].tobytes()
        assert alone.token.tobytes() == batch.token[row : row + 1].tobytes()


def test_a_place_that_was_used_before_has_nothing_left_in_it():
    """Evicted sets lend their memory to later ones, larger and smaller."""
    weight, bias, hidden = normal(0, 300, 33), normal(1, 300), normal(2, 1, 33)
    shortlist, requests = make_shortlist(3, 300, 200), make_requests(4, 30)
    run = ShortlistLayer(weight, bias, shortlist).open()
    for request in requests:
        run.admit([request])
        index = np.array([request.index], np.int32)
        got = run.topk(hidden, 20, index)
        wanted = opened(weight, bias, shortlist, [request]).topk(hidden, 20, index)
        assert got.log_prob.tobytes() == wanted.log_prob.tobytes() and got.token.tolist() == wanted.token.tolist()
        run.evict(index)


def test_misuse_is_refused():
    weight, bias, hidden = normal(0, 20, 4), normal(1, 20), normal(2, 2, 4)
    shortlist, requests = make_shortlist(3, 20), make_requests(4, 2)
    run = opened(weight, bias, shortlist, requests)
    here = np.array([0, 10], np.int32)
    with pytest.raises(ValueError, match="request 0 is in flight already"):
        run.admit(requests[:1])
    for k in (0, 21):
        with pytest.raises(ValueError, match=f"k is {k}; it must be from 1 to the vocabulary size, 20"):
            run.topk(hidden, k, here)
    with pytest.raises(ValueError, match="request is 5, which was not admitted"):
        run.topk(hidden, 1, np.array([0, 5], np.int32))
    with pytest.raises(ValueError, match=r"token\[1\] is 20"):
        run.log_prob(hidden, np.array([0, 20], np.int32), here)
    with pytest.raises(ValueError, match="request is 5"):
        run.evict(np.array([0, 5], np.int32))
    run.evict(here)  # nothing was forgotten by the refused call
    with pytest.raises(ValueError, match="not admitted or is evicted"):
        run.topk(hidden, 1, here)
    none, nothing = np.zeros(SOURCES + 1, np.int32), np.empty(0, np.int32)
    for tokens in ([3, 3], [4, 3], [-1], [20]):
        with pytest.raises(ValueError, match="the tokens must ascend, from 0 to 19"):
            ShortlistLayer(weight, bias, Shortlist(np.array(tokens, np.int32), none, nothing))
    with pytest.raises(ValueError, match="always has no tokens"):
        ShortlistLayer(weight, bias, Shortlist(nothing, none, nothing))
    always, one = np.zeros(1, np.int32), np.array([20], np.int32)
    with pytest.raises(ValueError, match=r"token\[0\] is 20; it must be from 0 to 19"):
        ShortlistLayer(weight, bias, Shortlist(always, np.array([0, 1], np.int32), one))
    for start, message in (
        ([1, 1], r"start\[0\] is 1"),
        ([0, 2, 1], r"start\[2\] is 1; start must rise"),
        ([], "empty"),
    ):
        with pytest.raises(ValueError, match=message):
            ShortlistLayer(weight, bias, Shortlist(always, np.array(start, np.int32), always))
    short = ShortlistLayer(weight, bias, Shortlist(always, np.zeros(2, np.int32), nothing)).open()
    for source in (-1, 1):
        with pytest.raises(ValueError, match=f"a source token is {source}; the shortlist knows 0 to 0"):
            short.admit([Request(0, np.array([source], np.int32))])
