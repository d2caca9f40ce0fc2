"""Screen and shortlist together: exact logits on the words of both, or of either, each row for itself."""

from __future__ import annotations

import numpy as np
import pytest
from unit.output_layers.test_shortlist import SOURCES, TABLES, TOLERANCE, make_requests, make_shortlist, normal, whole

from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.fitted import Screen, Shortlist
from sharpbeam.output_layers.shortlist import JoinedLayer


def make_screen(seed: int, clusters: int, dim: int, vocab: int, numbers=normal) -> Screen:
    draw = np.random.default_rng(seed)
    sets = [np.sort(draw.permutation(vocab)[: draw.integers(1, vocab // 2 + 2)]) for _ in range(clusters)]
    start = np.cumsum([0, *map(len, sets)]).astype(np.int32)
    token = np.concatenate(sets).astype(np.int32)
    return Screen(numbers(seed + 1, clusters, dim), numbers(seed + 2, clusters), start, token)


def joined_words(screen: Screen, shortlist: Shortlist, join: str, h: np.ndarray, source: np.ndarray) -> list[int]:
    """The set of one row, by Python's own sets."""
    cluster = int(np.argmax(screen.weight.astype(np.float64) @ h.astype(np.float64) + screen.bias))
    others = set(screen.token[screen.start[cluster] : screen.start[cluster + 1]].tolist())
    own = set(shortlist.words(source).tolist())
    return sorted(own | others if join == "or" else own & others or own)


@pytest.mark.parametrize("isa", TABLES)
@pytest.mark.parametrize("join", ["and", "or"])
@pytest.mark.parametrize("shape", [(9, 5, 9), (60, 33, 130), (40, 64, 64)])
def test_as_the_reference_where_sums_are_exact(isa, join, shape):
    rows, dim, vocab = shape
    weight, bias, hidden = whole(0, vocab, dim), whole(1, vocab), whole(2, rows, dim)
    screen, shortlist = make_screen(6, 5, dim, vocab, whole), make_shortlist(3, vocab, min(12, vocab))
    requests = make_requests(4, 6)
    request = np.random.default_rng(5).choice([r.index for r in requests], rows).astype(np.int32)
    run = JoinedLayer(weight, bias, screen, shortlist, join, isa).open()
    run.admit(requests)
    logits = hidden.astype(np.float64) @ weight.T.astype(np.float64) + bias
    sizes = set()
    for k in {1, min(5, vocab), vocab}:
        top = run.topk(hidden, k, request)
        for row, index in enumerate(request.tolist()):
            words = np.array(joined_words(screen, shortlist, join, hidden[row], requests[index // 10].source))
            sizes.add(len(words))
            own = logits[row, words]
            log_prob = own - own.max() - np.log(np.exp(own - own.max()).sum())
            order = np.argsort(-own, kind="stable")[:k]
            assert top.token[row, : len(order)].tolist() == words[order].tolist()
            np.testing.assert_allclose(top.log_prob[row, : len(order)], log_prob[order], atol=TOLERANCE, rtol=0)
            assert (top.log_prob[row, len(order) :] == -np.inf).all()
        forced = run.log_prob(hidden, np.ascontiguousarray(top.token[:, 0]), request)
        assert forced.tobytes() == top.log_prob[:, 0].tobytes()
    assert len(sizes) > 1
    run.evict(np.array([r.index for r in requests], np.int32))
    with pytest.raises(ValueError, match="not admitted or is evicted"):
        run.topk(hidden, 1, request)


@pytest.mark.parametrize("join", ["and", "or"])
def test_full_sets_are_the_exact_projection_and_rows_do_not_see_each_other(join):
    weight, bias, hidden = normal(0, 200, 65), normal(1, 200), normal(2, 50, 65)
    everything = np.arange(200, dtype=np.int32)
    full = Shortlist(everything, np.zeros(SOURCES + 1, np.int32), np.empty(0, np.int32))
    whole_screen = Screen(normal(3, 2, 65), normal(4, 2), np.array([0, 200, 400], np.int32), np.tile(everything, 2))
    requests = make_requests(4, 3)
    request = np.random.default_rng(5).choice([r.index for r in requests], 50).astype(np.int32)
    exact = ExactLayer.build(weight, bias).topk(hidden, 7)
    run = JoinedLayer(weight, bias, whole_screen, full, join).open()
    run.admit(requests)
    got = run.topk(hidden, 7, request)
    assert got.log_prob.tobytes() == exact.log_prob.tobytes() and got.token.tobytes() == exact.token.tobytes()
    answers = set()
    for isa in TABLES:
        layer = JoinedLayer(weight, bias, make_screen(6, 9, 65, 200), make_shortlist(3, 200, 60), join, isa)
        run = layer.open()
        run.admit(requests)
        batch = run.topk(hidden, 9, request)
        answers.add(batch.log_prob.tobytes() + batch.token.tobytes())
        for row in range(0, 50, 7):
            alone = run.topk(hidden[row : row + 1], 9, request[row : row + 1])
            assert alone.log_prob.tobytes() == batch.log_prob[row : row + 1].tobytes()
            assert alone.token.tobytes() == batch.token[row : row + 1].tobytes()
    assert len(answers) == 1


def test_words_that_are_disjoint_leave_those_of_the_request():
    weight, bias = normal(0, 10, 4), normal(1, 10)
    screen = Screen(normal(2, 1, 4), normal(3, 1), np.array([0, 2], np.int32), np.array([8, 9], np.int32))
    few = Shortlist(np.array([1, 4], np.int32), np.zeros(SOURCES + 1, np.int32), np.empty(0, np.int32))
    requests = make_requests(4, 1)
    for join, words in (("and", [1, 4]), ("or", [1, 4, 8, 9])):
        run = JoinedLayer(weight, bias, screen, few, join).open()
        run.admit(requests)
        top = run.topk(normal(5, 1, 4), 10, np.zeros(1, np.int32))
        assert sorted(top.token[0, top.log_prob[0] > -np.inf].tolist()) == words
