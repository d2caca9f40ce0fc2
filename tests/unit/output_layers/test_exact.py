"""Truth 4: the exact output layer gives the reference's top k, ties by lower id; and a row's answer stands alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.layers import ReferenceLayer

from sharpbeam._core import table_names
from sharpbeam.output_layers.exact import ExactLayer

TOLERANCE = 2e-5  # of a log probability; hidden vectors and rows are normal and up to 100 wide


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def whole(seed: int, *shape: int) -> np.ndarray:
    """Small whole numbers: every product and sum is exact, and many logits are equal."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


SHAPES = st.tuples(st.integers(1, 60), st.integers(1, 100), st.integers(1, 300))  # rows, width, vocabulary


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 4), shape=SHAPES, share=st.floats(0, 1))
def test_same_tokens_as_the_reference_where_logits_are_exact(seed, shape, share):
    rows, width, vocab = shape
    k = 1 + round(share * (vocab - 1))
    weight, bias, hidden = whole(seed, vocab, width), whole(seed + 1, vocab), whole(seed + 2, rows, width)
    wanted = ReferenceLayer(weight, bias).topk(hidden, k)
    for isa in table_names():
        got = ExactLayer.build(weight, bias, isa).topk(hidden, k)
        assert got.token.tolist() == wanted.token.tolist()
        np.testing.assert_allclose(got.log_prob, wanted.log_prob, atol=TOLERANCE, rtol=0)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 4), shape=SHAPES, share=st.floats(0, 1))
def test_as_the_reference_where_they_are_not(seed, shape, share):
    """Tokens may differ from the reference's only where log probabilities are within the tolerance."""
    rows, width, vocab = shape
    k = 1 + round(share * (vocab - 1))
    weight, bias, hidden = normal(seed, vocab, width), normal(seed + 1, vocab), normal(seed + 2, rows, width)
    exact, truth = ExactLayer.build(weight, bias), ReferenceLayer(weight, bias)
    got, wanted = exact.topk(hidden, k), truth.topk(hidden, k)
    assert all(len(set(row)) == k for row in got.token.tolist())
    np.testing.assert_allclose(got.log_prob, wanted.log_prob, atol=TOLERANCE, rtol=0)
    for j in range(k):
        np.testing.assert_allclose(truth.log_prob(hidden, got.token[:, j]), got.log_prob[:, j], atol=TOLERANCE, rtol=0)


def test_the_tolerance_sees_one_wrong_weight():
    weight, bias, hidden = normal(0, 300, 100), normal(1, 300), normal(2, 8, 100)
    wanted = ReferenceLayer(weight, bias).topk(hidden, 300)
    weight[17, 50] += 1e-3
    got = ExactLayer.build(weight, bias).log_prob(hidden, np.full(8, 17, np.int32))
    right = wanted.log_prob[wanted.token == 17]
    assert np.max(np.abs(got - right)) > TOLERANCE


def test_equal_rows_come_in_the_order_of_their_ids():
    """Duplicates anywhere in the vocabulary, across panels and blocks."""
    weight, bias, hidden = np.tile(normal(0, 50, 33), (20, 1)), np.zeros(1000, np.float32), normal(1, 7, 33)
    token = ExactLayer.build(weight, bias).topk(hidden, 60).token
    groups = token.reshape(7, 3, 20)
    assert (np.diff(groups, axis=2) == 50).all()  # the copies of one row, lowest id first, none left out


def test_equal_log_probs_come_in_the_order_of_their_ids():
    """Logits one unit in the last place apart, whose log probabilities are equal: the lower id comes first."""
    weight = np.array([[1.0], [np.nextafter(np.float32(1), np.float32(2))]], np.float32)
    weight = np.concatenate([weight, np.full((2000, 1), -8.0, np.float32)])
    got = ExactLayer.build(weight, np.zeros(len(weight), np.float32)).topk(np.full((1, 1), 0.5, np.float32), 2)
    equal = got.log_prob[0, 0] == got.log_prob[0, 1]
    assert equal
    assert got.token.tolist() == [[0, 1]]


@pytest.mark.parametrize("rows", [1, 2, 5, 6, 7, 13, 48, 49, 100])
def test_a_row_alone_is_the_row_in_its_batch(rows):
    exact, hidden = ExactLayer.build(normal(0, 777, 65), normal(1, 777)), normal(2, rows, 65)
    batch = exact.topk(hidden, 9)
    for row in range(rows):
        alone = exact.topk(hidden[row : row + 1], 9)
        assert alone.log_prob.tobytes() == batch.log_prob[row : row + 1].tobytes()
        assert alone.token.tobytes() == batch.token[row : row + 1].tobytes()


def test_log_prob_has_the_bytes_of_topk_on_every_table():
    weight, bias, hidden = normal(0, 777, 65), normal(1, 777), normal(2, 60, 65)
    scalar = ExactLayer.build(weight, bias, "scalar").topk(hidden, 3)
    for isa in table_names():
        exact = ExactLayer.build(weight, bias, isa)
        assert exact.topk(hidden, 3).log_prob.tobytes() == scalar.log_prob.tobytes()
        for j in range(3):
            assert exact.log_prob(hidden, scalar.token[:, j].copy()).tobytes() == scalar.log_prob[:, j].tobytes()


def test_probabilities_sum_to_one():
    exact = ExactLayer.build(normal(0, 200, 30), normal(1, 200))
    total = np.exp(exact.topk(normal(2, 9, 30), 200).log_prob.astype(np.float64)).sum(axis=1)
    np.testing.assert_allclose(total, 1, atol=1e-5)


def test_threads_share_a_projection():
    """Also two sizes in turn, so that a thread's scratch grows between calls."""
    small = ExactLayer.build(normal(0, 100, 64), normal(1, 100))
    large = ExactLayer.build(normal(2, 3000, 64), normal(3, 3000))
    hidden = [normal(10 + i, 5, 64) for i in range(40)]

    def ask(h: np.ndarray) -> list[bytes]:
        return [part.tobytes() for p in (small, large) for top in [p.topk(h, 5)] for part in (top.log_prob, top.token)]

    alone = [ask(h) for h in hidden]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, hidden)) == alone


def test_no_rows_give_no_candidates():
    exact = ExactLayer.build(normal(0, 10, 4), normal(1, 10))
    top = exact.topk(np.empty((0, 4), np.float32), 3)
    assert top.log_prob.shape == top.token.shape == (0, 3)
    assert exact.log_prob(np.empty((0, 4), np.float32), np.empty(0, np.int32)).shape == (0,)


def test_the_arrays_may_change_after_build():
    weight, bias, hidden = normal(0, 70, 8), normal(1, 70), normal(2, 3, 8)
    exact = ExactLayer.build(weight, bias)
    before = exact.topk(hidden, 5).token.tolist()
    weight[:], bias[:] = 0, 0
    assert exact.topk(hidden, 5).token.tolist() == before


EXACT = ExactLayer.build(normal(0, 10, 4), normal(1, 10))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: EXACT.topk(normal(0, 2, 4), 0), "k is 0; it must be from 1 to the vocabulary size, 10"),
        (lambda: EXACT.topk(normal(0, 2, 4), -1), "k is -1; it must be"),
        (lambda: EXACT.topk(normal(0, 2, 4), 11), "k is 11; it must be"),
        (lambda: EXACT.topk(normal(0, 2, 5), 1), r"hidden has the shape \[2, 5\]; it must be \[any, 4\]"),
        (lambda: EXACT.topk(normal(0, 4), 1), r"hidden has the shape \[4\]"),
        (lambda: EXACT.topk(np.zeros((2, 4)), 1), "hidden has another dtype than float32"),
        (lambda: EXACT.topk(normal(0, 4, 2).T, 1), "hidden is not C-contiguous"),
        (lambda: EXACT.log_prob(normal(0, 2, 4), np.array([0, 10], np.int32)), r"token\[1\] is 10; .* from 0 to 9"),
        (lambda: EXACT.log_prob(normal(0, 2, 4), np.array([-1, 0], np.int32)), r"token\[0\] is -1"),
        (lambda: EXACT.log_prob(normal(0, 2, 4), np.array([0], np.int32)), r"token has the shape \[1\]; .* \[2\]"),
        (lambda: EXACT.log_prob(normal(0, 2, 4), np.array([0, 1])), "token has another dtype than int32"),
        (lambda: ExactLayer.build(normal(0, 10, 4), normal(1, 9)), r"bias has the shape \[9\]; it must be \[10\]"),
        (lambda: ExactLayer.build(normal(0, 0, 4), normal(1, 0)), r"weight has the shape \[0, 4\]"),
        (lambda: ExactLayer.build(normal(0, 10, 4), normal(1, 10), "mmx"), 'isa is "mmx"; this machine can run'),
        (lambda: ReferenceLayer(normal(0, 10, 4), normal(1, 10)).topk(normal(0, 2, 4), 11), "k is 11"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
