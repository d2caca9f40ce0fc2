"""The screened layer: exact logits of a row's set, its residual mass, and the rows that fall back."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from reference.layers import ReferenceScreenLayer
from support.made_layers import normal, whole

from sharpbeam._core import table_names
from sharpbeam.errors import ModelError
from sharpbeam.output_layers.artifact import Stored
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.screen import (
    ARTIFACTS,
    FallbackFeatures,
    FallbackTest,
    ResidualMass,
    Screen,
    ScreenLayer,
    Screens,
)

TABLES = table_names()
TOLERANCE = 2e-5  # of a log probability, as for the exact layer
COMPONENTS = 3  # of a residual mass
MAX_LOG_SHARE = -8.0


def make_screen(seed: int, clusters: int, dim: int, vocab: int, least: int = 1, numbers=normal) -> Screen:
    """Random clusters and sets of random sizes from `least` to V."""
    draw = np.random.default_rng(seed)
    sets = [np.sort(draw.permutation(vocab)[: draw.integers(least, vocab + 1)]) for _ in range(clusters)]
    start = np.cumsum([0, *map(len, sets)]).astype(np.int32)
    weight = numbers(seed + 1, clusters, dim)
    return Screen(weight, numbers(seed + 2, clusters), start, np.concatenate(sets).astype(np.int32))


def sets_of(screen: Screen, hidden: np.ndarray) -> list[np.ndarray]:
    """The set of each row."""
    cluster = np.argmax(hidden.astype(np.float64) @ screen.weight.T.astype(np.float64) + screen.bias, axis=1)
    return [screen.token[screen.start[t] : screen.start[t + 1]] for t in cluster]


def completed(screen: Screen, seed: int, numbers=normal) -> Screen:
    """With a residual mass about as large as that of the set."""
    clusters, dim = screen.weight.shape
    mass = ResidualMass(numbers(seed, clusters, COMPONENTS, dim), numbers(seed + 1, clusters, COMPONENTS))
    return replace(screen, residual=mass)


def with_test(screen: Screen, seed: int, k: int) -> Screen:
    """With a test that finds some rows uncertain and not others."""
    test = FallbackTest(normal(seed, *screen.weight.shape), k, 3.0, 0.5, 0.5, 5.0, MAX_LOG_SHARE)
    return replace(completed(screen, seed + 7), fallback=test)


@pytest.mark.parametrize("isa", TABLES)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (7, 3, 5, 9), (60, 4, 33, 130), (100, 9, 70, 257), (13, 200, 64, 64)])
def test_as_the_reference_where_sums_are_exact(isa, shape):
    rows, clusters, dim, vocab = shape
    weight, bias, hidden = whole(0, vocab, dim), whole(1, vocab), whole(2, rows, dim)
    screen = make_screen(3, clusters, dim, vocab, numbers=whole)
    for one, k in itertools.product((screen, completed(screen, 7, whole)), {1, min(5, vocab), vocab}):
        got = ScreenLayer.build(weight, bias, one, isa=isa, int8=False).topk(hidden, k)
        expected = ReferenceScreenLayer(weight, bias, one).topk(hidden, k)
        assert got.token.tolist() == expected.token.tolist()
        np.testing.assert_allclose(got.log_prob, expected.log_prob, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("isa", TABLES)
def test_as_the_reference_with_rows_that_fall_back(isa):
    weight, bias, hidden = normal(0, 150, 40), normal(1, 150), normal(2, 90, 40)
    screen = with_test(make_screen(3, 6, 40, 150), 9, 4)
    exact = ExactLayer.build(weight, bias, isa)
    native = ScreenLayer.build(weight, bias, screen, exact, isa, int8=False)
    reference = ReferenceScreenLayer(weight, bias, screen, exact)
    got, expected = native.topk(hidden, 3), reference.topk(hidden, 3)
    assert got.token.tolist() == expected.token.tolist()
    np.testing.assert_allclose(got.log_prob, expected.log_prob, atol=TOLERANCE, rtol=0)
    same = (got.log_prob == exact.topk(hidden, 3).log_prob).all(axis=1)
    assert 0.1 < same.mean() < 0.9  # some rows fall back, not all
    assert native.fallback_share == pytest.approx(same.mean())
    for token in (*got.token.T.copy(), np.arange(90, dtype=np.int32)):  # and tokens outside the sets
        np.testing.assert_allclose(
            native.log_prob(hidden, token), reference.log_prob(hidden, token), atol=TOLERANCE, rtol=0
        )


def test_only_the_set_is_possible_without_a_residual_mass():
    weight, bias, hidden = normal(0, 50, 8), normal(1, 50), normal(2, 20, 8)
    screen = make_screen(3, 3, 8, 50)
    layer, inside = ScreenLayer.build(weight, bias, screen), sets_of(screen, hidden)
    top = layer.topk(hidden, 50)
    for row, tokens in enumerate(inside):
        assert sorted(top.token[row, : len(tokens)]) == tokens.tolist()
        assert (top.log_prob[row, len(tokens) :] == -np.inf).all()
    for token in range(50):
        result = layer.log_prob(hidden, np.full(20, token, np.int32))
        assert [bool(x > -np.inf) for x in result] == [token in tokens for tokens in inside]


@pytest.mark.parametrize("isa", TABLES)
@pytest.mark.parametrize("shape", [(60, 4, 33, 130), (100, 9, 70, 257), (50, 20, 320, 900)])
def test_int8_logits_find_the_exact_tokens(isa, shape):
    """With int8: the tokens and logits of the floats; only the normalizer, and ties of clusters, move."""
    rows, clusters, dim, vocab = shape
    weight, bias, hidden = normal(0, vocab, dim) / 8, normal(1, vocab), normal(2, rows, dim)
    screen = completed(make_screen(3, clusters, dim, vocab), 7)
    int8, floats = (ScreenLayer.build(weight, bias, screen, isa=isa, int8=kind) for kind in (True, False))
    same = int8.native.assign(hidden) == floats.native.assign(hidden)
    assert same.mean() >= 0.9
    for k in (1, 5, 12):
        got, expected = int8.topk(hidden[same], k), floats.topk(hidden[same], k)
        assert got.token.tolist() == expected.token.tolist()
        np.testing.assert_allclose(got.log_prob, expected.log_prob, atol=0.02, rtol=0)


def _with_a_long_row(weight, hidden):
    """The last row is a thousand times as long as others; all hidden vectors are nearly orthogonal to it."""
    along = np.eye(1, weight.shape[1], dtype=np.float32)
    hidden = hidden - hidden @ along.T * along + np.float32(0.006) * along
    return np.concatenate([weight[:-1], 1000 * along]), hidden


HARD = {
    "a long row": _with_a_long_row,
    "an outlier in hidden vectors": lambda weight, hidden: (
        weight * np.float32([1e-3] + [1] * 63),
        hidden * np.float32([300] + [1] * 63),
    ),
    "equal after rounding": lambda weight, hidden: (weight * np.float32(1e-9), hidden),
}


@pytest.mark.parametrize("kind", HARD)
def test_int8_is_no_worse_where_numbers_are_hard(kind):
    """As floats, and fewer candidates are the first of more."""
    weight, hidden = HARD[kind](normal(0, 300, 64) / 8, normal(2, 40, 64))
    bias, screen = np.zeros(300, np.float32), make_screen(3, 1, 64, 300, least=300)
    int8, floats = (ScreenLayer.build(weight, bias, screen, int8=kind) for kind in (True, False))
    got, expected = int8.topk(hidden, 5), floats.topk(hidden, 5)
    assert got.token.tolist() == expected.token.tolist() and got.log_prob.max() <= 0
    np.testing.assert_allclose(got.log_prob, expected.log_prob, atol=0.02, rtol=1e-6)
    for k in (1, 20):
        assert np.array_equal(int8.topk(hidden, k).token[:, :5], got.token[:, :k])
    assert np.array_equal(int8.log_prob(hidden, got.token[:, 1].copy()), got.log_prob[:, 1])


def test_a_right_residual_mass_makes_every_probability_right():
    """With the exact mass of the tokens outside, every log probability is the exact layer's, inside and out."""
    weight, bias, h = normal(0, 80, 12), normal(1, 80), normal(2, 1, 12)
    outside = np.arange(40, 80)
    log_mass = float(np.log(np.exp(np.float64(weight[outside] @ h[0] + bias[outside])).sum()))
    mass = ResidualMass(np.zeros((1, 2, 12), np.float32), np.full((1, 2), log_mass - np.log(2), np.float32))
    screen = Screen(normal(3, 1, 12), normal(4, 1), np.array([0, 40], np.int32), np.arange(40, dtype=np.int32), mass)
    exact = ExactLayer.build(weight, bias)
    for int8 in (False, True):
        layer, tolerance = ScreenLayer.build(weight, bias, screen, int8=int8), 0.01 if int8 else TOLERANCE
        for token in range(80):
            one = np.array([token], np.int32)
            np.testing.assert_allclose(layer.log_prob(h, one), exact.log_prob(h, one), atol=tolerance)
        alone = ScreenLayer.build(weight, bias, replace(screen, residual=None), int8=int8)
        assert alone.topk(h, 1).log_prob[0, 0] - layer.topk(h, 1).log_prob[0, 0] > 10 * tolerance


def test_features_are_what_the_fallback_test_decides_by():
    weight, bias, hidden = normal(0, 150, 40), normal(1, 150), normal(2, 90, 40)
    screen = with_test(make_screen(3, 6, 40, 150, least=5), 9, 4)
    assert screen.fallback is not None and screen.residual is not None
    features = FallbackFeatures(weight, bias, screen, hidden)
    center, mass = screen.fallback.center[features.cluster], screen.residual
    np.testing.assert_allclose(features.distance, np.linalg.norm(hidden - center, axis=1), rtol=1e-4)
    components = np.einsum("nmd,nd->nm", mass.weight[features.cluster], hidden) + mass.bias[features.cluster]
    np.testing.assert_allclose(features.log_mass, np.logaddexp.reduce(components, axis=1), atol=1e-4)
    uncertain = features.uncertain(screen.fallback)
    margin_fails = ~(features.certainty(3.0, 0.5, 0.5) >= np.float32(5.0))
    mass_fails = features.log_mass - features.log_total > np.float32(MAX_LOG_SHARE)
    assert uncertain.tolist() == (margin_fails | mass_fails).tolist()
    assert (mass_fails & ~margin_fails).any() and (margin_fails & ~mass_fails).any()
    layer = ScreenLayer.build(weight, bias, screen, ExactLayer.build(weight, bias))
    layer.topk(hidden, 1)
    assert layer.fallback_share == uncertain.mean() and 0.1 < uncertain.mean() < 0.9


@pytest.mark.parametrize("isa", TABLES)
def test_full_sets_of_floats_are_the_exact_layer_bit_for_bit(isa):
    weight, bias, hidden = normal(0, 333, 50), normal(1, 333), normal(2, 70, 50)
    everything = np.arange(333, dtype=np.int32)
    screen = Screen(normal(3, 4, 50), normal(4, 4), np.arange(5, dtype=np.int32) * 333, np.tile(everything, 4))
    exact, layer = ExactLayer.build(weight, bias, isa), ScreenLayer.build(weight, bias, screen, isa=isa, int8=False)
    for k in (1, 7, 333):
        got, expected = layer.topk(hidden, k), exact.topk(hidden, k)
        assert got.log_prob.tobytes() == expected.log_prob.tobytes()
        assert got.token.tobytes() == expected.token.tobytes()
    token = np.arange(70, dtype=np.int32)
    assert layer.log_prob(hidden, token).tobytes() == exact.log_prob(hidden, token).tobytes()


@pytest.mark.parametrize("int8", [False, True])
def test_whether_a_row_falls_back_does_not_depend_on_k_or_its_neighbors(int8):
    weight, bias, hidden = normal(0, 200, 30), normal(1, 200), normal(2, 80, 30)
    screen = with_test(make_screen(3, 5, 30, 200, least=20), 9, 5)
    layer = ScreenLayer.build(weight, bias, screen, ExactLayer.build(weight, bias), int8=int8)
    wide = layer.topk(hidden, 12)
    assert 0.1 < layer.fallback_share < 0.9
    for k in (1, 4, 5, 6):
        assert layer.topk(hidden, k).log_prob.tolist() == wide.log_prob[:, :k].tolist()
    alone = np.concatenate([layer.topk(hidden[row : row + 1], 12).log_prob for row in range(80)])
    assert alone.tobytes() == wide.log_prob.tobytes()


@pytest.mark.parametrize("int8", [False, True])
def test_a_hidden_vector_of_nan_is_told_by_its_first_candidate(int8):
    """As by the exact layer: a search names the model as broken."""
    layer = ScreenLayer.build(normal(0, 20, 4), normal(1, 20), make_screen(3, 3, 4, 20), int8=int8)
    for value in (np.nan, np.inf):
        assert np.isnan(layer.topk(np.full((2, 4), value, np.float32), 3).log_prob[:, 0]).all()
    layer = ScreenLayer.build(-np.ones((20, 4), np.float32), normal(1, 20), make_screen(3, 3, 4, 20), int8=int8)
    assert np.isnan(layer.topk(np.float32([[np.inf, 1, 1, 1]]), 3).log_prob[0, 0])  # all logits are -inf


GOOD = make_screen(3, 3, 4, 20, least=2)


@pytest.mark.parametrize(
    ("screen", "message"),
    [
        (replace(GOOD, weight=normal(0, 3, 5)), r"cluster_weight has the shape \[3, 5\]; it must be \[any, 4\]"),
        (replace(GOOD, bias=normal(0, 2)), r"cluster_bias has the shape \[2\]"),
        (replace(GOOD, start=GOOD.start[:-1].copy()), r"start has the shape \[3\]; it must be \[4\]"),
        (replace(GOOD, start=np.array([0, 0, *GOOD.start[2:]], np.int32)), "each cluster has a token"),
        (replace(GOOD, start=GOOD.start + np.int32(1)), r"token has the shape"),
        (replace(GOOD, token=GOOD.token + np.int32(20)), "must ascend, from 0 to 19"),
        (replace(GOOD, token=np.zeros_like(GOOD.token)), "must ascend, from 0 to 19"),
        (replace(GOOD, residual=ResidualMass(normal(0, 3, 0, 4), normal(1, 3, 0))), "must have at least 1"),
        (replace(GOOD, residual=ResidualMass(normal(0, 2, 1, 4), normal(1, 3, 1))), "residual_weight has the shape"),
    ],
)
def test_screens_that_do_not_fit_are_named(screen, message):
    with pytest.raises(ValueError, match=message):
        ScreenLayer.build(normal(0, 20, 4), normal(1, 20), screen)


@pytest.mark.parametrize("held_out", [{"bound": float("nan")}, {"bound": 5.0}, {"bound": None}, "x", [1]])
def test_a_fidelity_that_is_none_is_refused(held_out):
    arrays, facts = ARTIFACTS["screen"].write(Screens("all", {"": make_screen(3, 4, 8, 30)}))
    stored = Stored("screen.safetensors", "Fit it again.", facts, arrays, {"V": 30, "D": 8})
    assert ARTIFACTS["screen"].read(replace(stored, facts={**facts, "held_out": {"bound": 0.9}})).fidelity == 0.9
    with pytest.raises((ModelError, TypeError, ValueError)):  # of which FolderArtifacts makes a ModelError
        ARTIFACTS["screen"].read(replace(stored, facts={**facts, "held_out": held_out}))


def test_fallback_layers_that_do_not_fit_are_named():
    weight, bias, screen = normal(0, 20, 4), normal(1, 20), with_test(GOOD, 9, 3)
    narrow = ExactLayer.build(normal(0, 20, 3), bias)
    with pytest.raises(ValueError, match=r"fallback is for \[20, 3\]; it must be for the same output matrix"):
        ScreenLayer.build(weight, bias, screen, narrow)
    with pytest.raises(ValueError, match="fallback is a screen; it must be a layer that scores all tokens"):
        ScreenLayer.build(weight, bias, screen, ScreenLayer.build(weight, bias, GOOD))
    with pytest.raises(ValueError, match="fallback_k is 21; it must be from 0 to 20"):
        ScreenLayer.build(weight, bias, with_test(GOOD, 9, 21), ExactLayer.build(weight, bias))
