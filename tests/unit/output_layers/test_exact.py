"""Fact 4: the exact output layer gives the reference's top k, ties by lower id."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.layers import ReferenceLayer
from support.made_layers import normal, whole

from sharpbeam._core import table_names
from sharpbeam.output_layers.exact import ExactLayer

TOLERANCE = 2e-5  # of a log probability; hidden vectors and rows are normal and up to 100 wide


SHAPES = st.tuples(st.integers(1, 60), st.integers(1, 100), st.integers(1, 300))  # rows, width, vocabulary


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 4), shape=SHAPES, share=st.floats(0, 1))
def test_same_tokens_as_the_reference_where_logits_are_exact(seed, shape, share):
    rows, width, vocab = shape
    k = 1 + round(share * (vocab - 1))
    weight, bias, hidden = whole(seed, vocab, width), whole(seed + 1, vocab), whole(seed + 2, rows, width)
    expected = ReferenceLayer(weight, bias).topk(hidden, k)
    for isa in table_names():
        got = ExactLayer.build(weight, bias, isa).topk(hidden, k)
        assert got.token.tolist() == expected.token.tolist()
        np.testing.assert_allclose(got.log_prob, expected.log_prob, atol=TOLERANCE, rtol=0)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32 - 4), shape=SHAPES, share=st.floats(0, 1))
def test_as_the_reference_where_they_are_not(seed, shape, share):
    """Tokens may differ from the reference's only where log probabilities are within the tolerance."""
    rows, width, vocab = shape
    k = 1 + round(share * (vocab - 1))
    weight, bias, hidden = normal(seed, vocab, width), normal(seed + 1, vocab), normal(seed + 2, rows, width)
    exact, truth = ExactLayer.build(weight, bias), ReferenceLayer(weight, bias)
    got, expected = exact.topk(hidden, k), truth.topk(hidden, k)
    assert all(len(set(row)) == k for row in got.token.tolist())
    np.testing.assert_allclose(got.log_prob, expected.log_prob, atol=TOLERANCE, rtol=0)
    for j in range(k):
        np.testing.assert_allclose(truth.log_prob(hidden, got.token[:, j]), got.log_prob[:, j], atol=TOLERANCE, rtol=0)


def test_the_tolerance_sees_one_wrong_weight():
    weight, bias, hidden = normal(0, 300, 100), normal(1, 300), normal(2, 8, 100)
    expected = ReferenceLayer(weight, bias).topk(hidden, 300)
    weight[17, 50] += 1e-3
    got = ExactLayer.build(weight, bias).log_prob(hidden, np.full(8, 17, np.int32))
    right = expected.log_prob[expected.token == 17]
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


def test_the_arrays_may_change_after_build():
    weight, bias, hidden = normal(0, 70, 8), normal(1, 70), normal(2, 3, 8)
    exact = ExactLayer.build(weight, bias)
    before = exact.topk(hidden, 5).token.tolist()
    weight[:], bias[:] = 0, 0
    assert exact.topk(hidden, 5).token.tolist() == before


def test_a_deferred_layer_is_the_layer():
    weight, bias, hidden = normal(0, 70, 8), normal(1, 70), normal(2, 3, 8)
    own, deferred = (ExactLayer.build(weight, bias, deferred=deferred) for deferred in (False, True))
    assert deferred.vocab_size == 70
    assert deferred.unnormalized().topk(hidden, 5).token.tolist() == own.topk(hidden, 5).token.tolist()
    assert deferred.topk(hidden, 5).log_prob.tobytes() == own.topk(hidden, 5).log_prob.tobytes()


def test_bad_arguments_are_named():
    for deferred in (False, True):
        with pytest.raises(ValueError, match=r"weight has the shape \[0, 4\]; both sizes must be at least 1"):
            ExactLayer.build(normal(0, 0, 4), normal(1, 0), deferred=deferred)
    with pytest.raises(ValueError, match="k is 11; it must be from 1 to the vocabulary size, 10"):
        ReferenceLayer(normal(0, 10, 4), normal(1, 10)).topk(normal(0, 2, 4), 11)
