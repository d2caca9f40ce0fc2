"""The published layer of CVP: the rows of a step share the union of their sets."""

from __future__ import annotations

import numpy as np
import pytest
from support.made_layers import normal

from sharpbeam._core import table_names
from sharpbeam.output_layers.screen import Screen, ScreenLayer, ScreenUnionLayer

VOCAB, DIM, CLUSTERS = 301, 19, 12  # no multiples of a panel, of a register or of a word of marks
WEIGHT, BIAS = normal(1, VOCAB, DIM), normal(2, VOCAB)


def make_screen(size: int) -> Screen:
    draw = np.random.default_rng(3)
    sets = [np.sort(draw.permutation(VOCAB)[:size]) for _ in range(CLUSTERS)]
    start = np.arange(0, size * CLUSTERS + 1, size).astype(np.int32)
    return Screen(normal(4, CLUSTERS, DIM), normal(5, CLUSTERS), start, np.concatenate(sets).astype(np.int32))


def reference(screen: Screen, hidden: np.ndarray) -> np.ndarray:
    """Log probabilities [R, V] in full width: -inf outside of the union of the sets of the rows."""
    cluster = np.argmax(hidden @ screen.weight.T + screen.bias, axis=1)
    mask = np.zeros(VOCAB, np.bool_)
    for t in cluster:
        mask[screen.token[screen.start[t] : screen.start[t + 1]]] = True
    logits = np.where(mask, hidden.astype(np.float64) @ WEIGHT.T + BIAS, -np.inf)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("isa", table_names())
@pytest.mark.parametrize("rows", [1, 5, 60])
def test_as_the_reference(isa, rows):
    screen, hidden = make_screen(20), normal(6, rows, DIM)
    layer, expected = ScreenUnionLayer(WEIGHT, BIAS, screen, isa), reference(screen, hidden)
    top = layer.topk(hidden, 7)
    np.testing.assert_array_equal(top.token, np.argsort(-expected, axis=1, kind="stable")[:, :7])
    np.testing.assert_allclose(top.log_prob, np.take_along_axis(expected, top.token, axis=1), atol=2e-5)
    for token in (0, 77, VOCAB - 1):
        forced = layer.log_prob(hidden, np.full(rows, token, np.int32))
        np.testing.assert_allclose(forced, expected[:, token], atol=2e-5)


def test_a_row_shares_the_sets_of_the_others_and_alone_has_its_own():
    screen, hidden = make_screen(20), normal(6, 40, DIM)
    union = ScreenUnionLayer(WEIGHT, BIAS, screen)
    together, alone = union.topk(hidden, 60), union.topk(hidden[:1], 60)
    assert (together.log_prob[0] > -np.inf).sum() == 60 > (alone.log_prob[0] > -np.inf).sum() == 20
    by_row = ScreenLayer.build(WEIGHT, BIAS, screen, int8=False).topk(hidden[:1], 60)
    assert alone.token.tobytes() == by_row.token.tobytes()
    assert alone.log_prob.tobytes() == by_row.log_prob.tobytes()


def test_a_call_leaves_no_marks_for_the_next():
    union, hidden = ScreenUnionLayer(WEIGHT, BIAS, make_screen(20)), normal(6, 40, DIM)
    before = union.topk(hidden[:1], 60)
    union.topk(hidden, 5)
    assert union.topk(hidden[:1], 60).log_prob.tobytes() == before.log_prob.tobytes()
