"""The screened output layer: exact logits on the set, a full set = the exact output layer, each row for itself."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from reference.layers import ReferenceScreenLayer

from sharpbeam._core import table_names
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.fitted import FallbackTest, ResidualMass, Screen
from sharpbeam.output_layers.screen import FallbackFeatures, ScreenLayer

TABLES = table_names()
TOLERANCE = 2e-5  # of a log probability, as for the exact output layer
PIECES = 3  # of a tail
LOOSEST = -8.0  # log of the share outside that is doubted


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def whole(seed: int, *shape: int) -> np.ndarray:
    """Small whole numbers: every product and sum is exact, and many logits and cluster scores are equal."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


def make_screen(seed: int, clusters: int, dim: int, vocab: int, least: int = 1, numbers=normal) -> Screen:
    """Random clusters and sets of random sizes from `least` to V."""
    draw = np.random.default_rng(seed)
    sets = [np.sort(draw.permutation(vocab)[: draw.integers(least, vocab + 1)]) for _ in range(clusters)]
    start = np.cumsum([0, *map(len, sets)]).astype(np.int32)
    weight = numbers(seed + 1, clusters, dim)
    return Screen(weight, numbers(seed + 2, clusters), start, np.concatenate(sets).astype(np.int32))


def words(screen: Screen, hidden: np.ndarray) -> list[np.ndarray]:
    """The set of each row."""
    cluster = np.argmax(hidden.astype(np.float64) @ screen.weight.T.astype(np.float64) + screen.bias, axis=1)
    return [screen.token[screen.start[t] : screen.start[t + 1]] for t in cluster]


def completed(screen: Screen, seed: int, numbers=normal) -> Screen:
    """With a tail that weighs about as much as the set."""
    clusters, dim = screen.weight.shape
    mass = ResidualMass(numbers(seed, clusters, PIECES, dim), numbers(seed + 1, clusters, PIECES))
    return replace(screen, residual=mass)


def doubtful_screen(screen: Screen, seed: int, k: int) -> Screen:
    """With a test that doubts some rows and not others."""
    doubt = FallbackTest(normal(seed, *screen.weight.shape), k, 3.0, 0.5, 0.5, 5.0, LOOSEST)
    return replace(completed(screen, seed + 7), fallback=doubt)


@pytest.mark.parametrize("isa", TABLES)
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (7, 3, 5, 9), (60, 4, 33, 130), (100, 9, 70, 257), (13, 200, 64, 64)])
def test_as_the_reference_where_sums_are_exact(isa, shape):
    rows, clusters, dim, vocab = shape
    weight, bias, hidden = whole(0, vocab, dim), whole(1, vocab), whole(2, rows, dim)
    screen = make_screen(3, clusters, dim, vocab, numbers=whole)
    for one, k in itertools.product((screen, completed(screen, 7, whole)), {1, min(5, vocab), vocab}):
        got = ScreenLayer.build(weight, bias, one, isa=isa, int8=False).topk(hidden, k)
        wanted = ReferenceScreenLayer(weight, bias, one).topk(hidden, k)
        assert got.token.tolist() == wanted.token.tolist()
        np.testing.assert_allclose(got.log_prob, wanted.log_prob, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("isa", TABLES)
def test_as_the_reference_with_doubts(isa):
    weight, bias, hidden = normal(0, 150, 40), normal(1, 150), normal(2, 90, 40)
    screen = doubtful_screen(make_screen(3, 6, 40, 150), 9, 4)
    exact = ExactLayer.build(weight, bias, isa)
    native = ScreenLayer.build(weight, bias, screen, exact, isa, int8=False)
    reference = ReferenceScreenLayer(weight, bias, screen, exact)
    got, wanted = native.topk(hidden, 3), reference.topk(hidden, 3)
    assert got.token.tolist() == wanted.token.tolist()
    np.testing.assert_allclose(got.log_prob, wanted.log_prob, atol=TOLERANCE, rtol=0)
    same = (got.log_prob == exact.topk(hidden, 3).log_prob).all(axis=1)
    assert 0.1 < same.mean() < 0.9  # the test doubts some rows, not all
    assert native.fallback_share == pytest.approx(same.mean())
    for j in range(3):
        token = got.token[:, j].copy()
        assert native.log_prob(hidden, token).tobytes() == got.log_prob[:, j].tobytes()
        np.testing.assert_allclose(reference.log_prob(hidden, token), got.log_prob[:, j], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("int8", [False, True])
def test_every_table_gives_the_same_bytes(int8):
    weight, bias, hidden = normal(0, 300, 70), normal(1, 300), normal(2, 60, 70)
    screen = doubtful_screen(make_screen(3, 8, 70, 300), 9, 5)
    answers = set()
    for isa in TABLES:
        exact = ExactLayer.build(weight, bias, isa)
        top = ScreenLayer.build(weight, bias, screen, exact, isa, int8=int8).topk(hidden, 6)
        answers.add(top.log_prob.tobytes() + top.token.tobytes())
    assert len(answers) == 1


def test_logits_are_those_of_the_exact_projection():
    """Truth 5: two log probabilities of a row differ as the exact logits do; outside the set they are -inf."""
    weight, bias, hidden = whole(0, 120, 20), whole(1, 120), whole(2, 50, 20)
    screen = make_screen(3, 5, 20, 120, least=2)
    top = ScreenLayer.build(weight, bias, screen).topk(hidden, 120)
    logits = hidden @ weight.T + bias
    for row, inside in enumerate(words(screen, hidden)):
        size = len(inside)
        assert sorted(top.token[row, :size]) == inside.tolist()
        assert (top.log_prob[row, size:] == -np.inf).all()
        gap = top.log_prob[row, :size] - top.log_prob[row, 0]
        np.testing.assert_allclose(gap, logits[row, top.token[row, :size]] - logits[row, inside].max(), atol=1e-4)
        order = list(zip(-top.log_prob[row, :size], top.token[row, :size], strict=True))
        assert order == sorted(order)  # ties by lower id


@pytest.mark.parametrize("isa", TABLES)
@pytest.mark.parametrize("shape", [(60, 4, 33, 130), (100, 9, 70, 257), (50, 20, 320, 900)])
def test_rounded_products_find_the_exact_words(isa, shape):
    """With bytes: the words of the floats and their logits; only the normaliser, and ties of clusters, move."""
    rows, clusters, dim, vocab = shape
    weight, bias, hidden = normal(0, vocab, dim) / 8, normal(1, vocab), normal(2, rows, dim)
    screen = completed(make_screen(3, clusters, dim, vocab), 7)
    exact = ExactLayer.build(weight, bias, isa)
    rounded, floats = (ScreenLayer.build(weight, bias, screen, isa=isa, int8=int8) for int8 in (True, False))
    same = rounded.assign(hidden) == floats.assign(hidden)
    assert same.mean() >= 0.9
    hidden = hidden[same]
    for k in (1, 5, 12):
        got, wanted = rounded.topk(hidden, k), floats.topk(hidden, k)
        assert got.token.tolist() == wanted.token.tolist()
        np.testing.assert_allclose(got.log_prob, wanted.log_prob, atol=0.02, rtol=0)
        filled = wanted.log_prob > -np.inf
        logit = np.stack([exact.log_prob(hidden, token.copy()) for token in got.token.T], axis=1)
        gaps = (got.log_prob - got.log_prob[:, :1], logit - logit[:, :1])
        np.testing.assert_allclose(gaps[0][filled], gaps[1][filled], atol=TOLERANCE, rtol=0)


def test_a_tail_completes_the_normaliser():
    """With the exact log of what lies outside, every log probability is the exact layer's, inside the set and out."""
    weight, bias, h = normal(0, 80, 12), normal(1, 80), normal(2, 1, 12)
    outside = np.arange(40, 80)
    mass = float(np.log(np.exp(np.float64(weight[outside] @ h[0] + bias[outside])).sum()))
    tail = ResidualMass(np.zeros((1, 2, 12), np.float32), np.full((1, 2), mass - np.log(2), np.float32))
    screen = Screen(normal(3, 1, 12), normal(4, 1), np.array([0, 40], np.int32), np.arange(40, dtype=np.int32), tail)
    exact = ExactLayer.build(weight, bias)
    for int8 in (False, True):
        screened = ScreenLayer.build(weight, bias, screen, int8=int8)
        top = screened.topk(h, 5)
        tolerance = 0.01 if int8 else TOLERANCE
        for token in range(80):
            one = np.array([token], np.int32)
            np.testing.assert_allclose(screened.log_prob(h, one), exact.log_prob(h, one), atol=tolerance)
        np.testing.assert_array_equal(screened.log_prob(h, top.token[0, :1].copy()), top.log_prob[0, :1])
        alone = ScreenLayer.build(weight, bias, replace(screen, residual=None), int8=int8)
        assert alone.topk(h, 1).log_prob[0, 0] - top.log_prob[0, 0] > 10 * tolerance


def test_signs_are_what_the_test_decides_by():
    weight, bias, hidden = normal(0, 150, 40), normal(1, 150), normal(2, 90, 40)
    screen = doubtful_screen(make_screen(3, 6, 40, 150, least=5), 9, 4)
    assert screen.fallback is not None and screen.residual is not None
    features = FallbackFeatures(weight, bias, screen, hidden)
    center, tail = screen.fallback.center[features.cluster], screen.residual
    np.testing.assert_allclose(features.distance, np.linalg.norm(hidden - center, axis=1), rtol=1e-4)
    pieces = np.einsum("nmd,nd->nm", tail.weight[features.cluster], hidden) + tail.bias[features.cluster]
    np.testing.assert_allclose(features.log_mass, np.logaddexp.reduce(pieces, axis=1), atol=1e-4)
    doubtful = features.uncertain(screen.fallback)
    lacking = ~(features.certainty(3.0, 0.5, 0.5) >= np.float32(5.0))
    loose = features.log_mass - features.log_total > np.float32(LOOSEST)
    assert doubtful.tolist() == (lacking | loose).tolist()
    assert (loose & ~lacking).any() and (lacking & ~loose).any()
    screened = ScreenLayer.build(weight, bias, screen, ExactLayer.build(weight, bias))
    screened.topk(hidden, 1)
    assert screened.fallback_share == doubtful.mean()
    assert 0.1 < doubtful.mean() < 0.9


@pytest.mark.parametrize("isa", TABLES)
def test_full_sets_are_the_exact_projection_byte_for_byte(isa):
    weight, bias, hidden = normal(0, 333, 50), normal(1, 333), normal(2, 70, 50)
    everything = np.arange(333, dtype=np.int32)
    screen = Screen(normal(3, 4, 50), normal(4, 4), np.arange(5, dtype=np.int32) * 333, np.tile(everything, 4))
    exact = ExactLayer.build(weight, bias, isa)
    screened = ScreenLayer.build(weight, bias, screen, isa=isa, int8=False)
    for k in (1, 7, 333):
        got, wanted = screened.topk(hidden, k), exact.topk(hidden, k)
        assert got.log_prob.tobytes() == wanted.log_prob.tobytes()
        assert got.token.tobytes() == wanted.token.tobytes()
    token = np.arange(70, dtype=np.int32)
    assert screened.log_prob(hidden, token).tobytes() == exact.log_prob(hidden, token).tobytes()


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("rows", [1, 2, 6, 7, 48, 49, 160])
def test_a_row_alone_is_the_row_in_its_batch(rows, int8):
    weight, bias, hidden = normal(0, 200, 65), normal(1, 200), normal(2, rows, 65)
    screen = doubtful_screen(make_screen(3, 3, 65, 200), 9, 2)
    screened = ScreenLayer.build(weight, bias, screen, ExactLayer.build(weight, bias), int8=int8)
    batch, turned = screened.topk(hidden, 9), screened.topk(hidden[::-1].copy(), 9)
    assert turned.log_prob[::-1].tobytes() == batch.log_prob.tobytes()
    for row in range(rows):
        alone = screened.topk(hidden[row : row + 1], 9)
        assert alone.log_prob.tobytes() == batch.log_prob[row : row + 1].tobytes()
        assert alone.token.tobytes() == batch.token[row : row + 1].tobytes()


def test_the_test_of_a_row_does_not_depend_on_k():
    weight, bias, hidden = normal(0, 200, 30), normal(1, 200), normal(2, 80, 30)
    screen = doubtful_screen(make_screen(3, 5, 30, 200, least=20), 9, 5)
    exact = ExactLayer.build(weight, bias)
    for int8 in (False, True):
        screened = ScreenLayer.build(weight, bias, screen, exact, int8=int8)
        wide = screened.topk(hidden, 12)
        assert 0.1 < screened.fallback_share < 0.9
        for k in (1, 4, 5, 6):
            assert screened.topk(hidden, k).log_prob.tolist() == wide.log_prob[:, :k].tolist()


def test_outside_the_set_is_impossible():
    weight, bias, hidden = normal(0, 50, 8), normal(1, 50), normal(2, 20, 8)
    screen = make_screen(3, 3, 8, 50)
    screened = ScreenLayer.build(weight, bias, screen)
    for token in range(50):
        found = screened.log_prob(hidden, np.full(20, token, np.int32))
        assert [bool(x > -np.inf) for x in found] == [token in inside for inside in words(screen, hidden)]


def test_no_rows_and_no_numbers():
    weight, bias = normal(0, 20, 4), normal(1, 20)
    screened = ScreenLayer.build(weight, bias, make_screen(3, 3, 4, 20))
    assert screened.topk(np.empty((0, 4), np.float32), 3).token.shape == (0, 3)
    assert (screened.topk(np.full((2, 4), np.nan, np.float32), 3).log_prob == -np.inf).all()


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
    ],
)
def test_screens_that_do_not_fit_are_named(screen, message):
    with pytest.raises(ValueError, match=message):
        ScreenLayer.build(normal(0, 20, 4), normal(1, 20), screen)


@pytest.mark.parametrize("k", [0, 21])
def test_k_is_checked(k):
    weight, bias = normal(0, 20, 4), normal(1, 20)
    with pytest.raises(ValueError, match=f"k is {k}; it must be"):
        ScreenLayer.build(weight, bias, GOOD).topk(normal(2, 2, 4), k)
    with pytest.raises(ValueError, match=f"k is {k}; it must be"):
        ReferenceScreenLayer(weight, bias, GOOD).topk(normal(2, 2, 4), k)
