"""Truth 5: the certified output layer gives the exact layer's k best, to the last byte, for every hidden vector."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.adversarial import check_topk, layers, normal

from sharpbeam import _core
from sharpbeam._core import table_names
from sharpbeam.fit.preview import fit_preview
from sharpbeam.output_layers.certified import CertifiedLayer
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.fitted import Preview

KINDS = list(layers(0, 8, 4, 2))
SHAPES = st.tuples(st.integers(1, 20), st.integers(1, 130), st.integers(1, 700))  # rows, width, vocabulary
Layer = tuple[np.ndarray, np.ndarray, np.ndarray]


def certified(layer: Layer, coordinates: int | None = None, isa: str = "auto", trust: float = 1) -> CertifiedLayer:
    """Fitted on other vectors than it is asked for."""
    weight, bias, _ = layer
    return CertifiedLayer.build(weight, bias, fitted(weight, bias, coordinates), isa, trust=trust)


def fitted(weight: np.ndarray, bias: np.ndarray, coordinates: int | None) -> Preview:
    return fit_preview(weight, bias, normal(99, 50, weight.shape[1]), coordinates)


def mixed(preview: Preview, seed: int) -> Preview:
    """Every word with a number of coordinates of its own."""
    width = len(preview.shift)
    choices = sorted({*range(4, width, 4), width})[:: 1 + width // 64]
    numbers = np.random.default_rng(seed).choice(choices, len(preview.coordinates))
    return dataclasses.replace(preview, coordinates=numbers.astype(np.int32))


def skewed(seed: int, vocab: int, width: int, rows: int) -> Layer:
    """Coordinates of very different sizes, as real ones are."""
    sizes = np.float32(0.93) ** np.arange(width, dtype=np.float32) * 3
    return normal(seed, vocab, width) * sizes, normal(seed + 1, vocab), normal(seed + 2, rows, width) * sizes


def log_sum_exp(layer: Layer) -> np.ndarray:
    weight, bias, hidden = layer
    logits = _core.Linear(weight, bias).apply(hidden).astype(np.float64)
    top = logits.max(axis=1)
    return np.log(np.exp(logits - top[:, None]).sum(axis=1)) + top


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 5),
    shape=SHAPES,
    shares=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    kind=st.sampled_from(KINDS),
)
def test_the_k_best_are_the_exact_layers(seed, shape, shares, kind):
    rows, width, vocab = shape
    layer = layers(seed, vocab, width, rows)[kind]
    preview = fitted(*layer[:2], None if shares[1] < 0.3 else 1 + round(shares[1] * (width - 1)))
    if shares[1] > 0.7:
        preview = mixed(preview, seed)
    for k in {1, min(5, vocab), 1 + round(shares[0] * (vocab - 1))}:
        answers = []
        for isa in table_names():
            output_layer = CertifiedLayer.build(*layer[:2], preview, isa)
            log_prob, token, total, left = output_layer.native.topk_details(layer[2], k)
            answers.append([a.tobytes() for a in (log_prob, token, total, left)])
        assert all(answer == answers[0] for answer in answers)
        check_topk(layer, k, (log_prob, token), total)


@pytest.mark.parametrize("kind", KINDS)
def test_a_large_vocabulary(kind):
    layer = layers(5, 3001, 96, 30)[kind]
    for coordinates in (None, 8, 48, 96):
        native = certified(layer, coordinates).native
        for k in (1, 5, 40):
            log_prob, token, total, _ = native.topk_details(layer[2], k)
            check_topk(layer, k, (log_prob, token), total)


def test_few_words_are_left_by_the_preview():
    layer = skewed(0, 3001, 96, 50)
    preview = fit_preview(*layer[:2], skewed(7, 1, 96, 400)[2])
    assert len(np.unique(preview.coordinates)) > 2
    assert preview.coordinates.mean() < 48
    output_layer = CertifiedLayer.build(*layer[:2], preview)
    left = output_layer.left(layer[2], 5)
    assert (left >= 5).all()
    assert left.mean() < 60
    assert output_layer.left(np.full((1, 96), np.nan, np.float32), 5) == 3001


@pytest.mark.parametrize("trust", [0.0, 0.1])
def test_the_bound_matters(trust):
    """With less than the proven bound, words of the k best are missed."""
    layer = skewed(0, 3001, 96, 200)
    log_prob, token, total, _ = certified(layer, 12, trust=trust).native.topk_details(layer[2], 40)
    with pytest.raises(AssertionError):
        check_topk(layer, 40, (log_prob, token), total)


@pytest.mark.parametrize(("trust", "missed"), [(1.0, False), (0.9, True), (0.5, True)])
def test_a_word_at_the_edge_of_the_bound(trust, missed):
    """All of its logit is in a coordinate that is not previewed."""
    basis, hidden = np.eye(8, dtype=np.float32), np.float32([[1, 0, 0, 0, 0, 0, 0, 10]])
    weight, bias = np.zeros((500, 8), np.float32), np.full(500, -1000, np.float32)
    weight[50, 7], weight[51, 7], bias[50] = 10, -10, 0  # a pair, so that the mean is zero
    bias[60:99] = 98
    preview = Preview(basis, np.zeros(8, np.float32), np.full(500, 4, np.int32))
    native = CertifiedLayer.build(weight, bias, preview, trust=trust).native
    log_prob, token, total, _ = native.topk_details(hidden, 1)
    assert (token[0, 0] != 50) == missed
    if not missed:
        check_topk((weight, bias, hidden), 1, (log_prob, token), total)


@pytest.mark.parametrize("kind", [*KINDS, "skewed"])
@pytest.mark.parametrize("coordinates", [6, 24])
def test_the_normaliser_is_within_its_proven_error(kind, coordinates):
    layer = skewed(3, 900, 24, 60) if kind == "skewed" else layers(3, 900, 24, 60)[kind]
    if kind == "too large to bound":
        layer = (layer[0], layer[1], layer[2] * np.float32(1e-13))
    truth, output_layer = log_sum_exp(layer), certified(layer, coordinates)
    for tolerance, refined in ((np.inf, 20), (np.inf, 900), (1e-3, 100), (0.0, 20)):
        total, error = output_layer.log_total(layer[2], tolerance, refined)
        assert (np.abs(total - truth) <= error).all()
        if np.isfinite(tolerance):
            assert (error <= np.maximum(tolerance, 1e-5 * (1 + np.abs(truth)))).all()


def test_the_proven_error_is_of_use():
    """Without exact logits of all words, 1e-2 is proven where coordinates fall off as real ones do."""
    layer = skewed(3, 3000, 96, 60)
    _, error = certified(layer, 64).log_total(layer[2], np.inf, 256)
    assert np.median(error) < 1e-2


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3])
def test_the_normaliser_of_topk_is_within_its_tolerance(tolerance):
    layer = skewed(0, 3001, 96, 200)
    preview = fit_preview(*layer[:2], skewed(7, 1, 96, 400)[2])
    output_layer = CertifiedLayer.build(*layer[:2], preview, tolerance=tolerance)
    log_prob, token, total, _ = output_layer.native.topk_details(layer[2], 7)
    assert np.abs(total - log_sum_exp(layer)).max() < tolerance + 1e-5
    check_topk(layer, 7, (log_prob, token), total)
    assert output_layer.log_prob(layer[2], token[:, 3].copy()).tobytes() == log_prob[:, 3].tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_normaliser_logits_are_exact(kind):
    layer = layers(5, 900, 40, 30)[kind]
    output_layer = CertifiedLayer.build(*layer[:2], fitted(*layer[:2], None)).unnormalised()
    top = output_layer.topk(layer[2], 9)
    check_topk(layer, 9, (top.log_prob, top.token), np.zeros(30, np.float32))
    assert output_layer.log_prob(layer[2], top.token[:, 4].copy()).tobytes() == top.log_prob[:, 4].tobytes()


@pytest.mark.parametrize("kind", ["normal", "ties", "zero hidden", "too large to bound"])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_log_prob_has_the_bytes_of_topk(kind, k):
    layer = layers(0, 777, 65, 20)[kind]
    for isa in table_names():
        output_layer = certified(layer, isa=isa)
        top = output_layer.topk(layer[2], k)
        for j in range(k):
            assert output_layer.log_prob(layer[2], top.token[:, j].copy()).tobytes() == top.log_prob[:, j].tobytes()


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf, 3e38])
def test_a_hidden_vector_without_bounds_is_answered_by_the_exact_layer(special):
    weight, bias, hidden = layers(0, 300, 20, 3)["normal"]
    hidden[1, 7] = special
    got = certified((weight, bias, hidden)).topk(hidden, 4)
    exact = ExactLayer.build(weight, bias).topk(hidden, 4)
    assert got.token.tolist() == exact.token.tolist()
    assert got.log_prob[1].tobytes() == exact.log_prob[1].tobytes()


@pytest.mark.parametrize("samples", [np.zeros((1, 65)), np.ones((9, 65)), np.eye(65)[:3] * 1e6])
def test_any_sample_will_do(samples):
    layer = layers(0, 777, 65, 20)["normal"]
    preview = fit_preview(*layer[:2], samples.astype(np.float32))
    log_prob, token, total, _ = CertifiedLayer.build(*layer[:2], preview).native.topk_details(layer[2], 5)
    check_topk(layer, 5, (log_prob, token), total)


def test_any_preview_will_do():
    """A basis that was fitted on another model, or is noise, is slow but not wrong."""
    layer = skewed(0, 777, 65, 20)
    for basis in (normal(7, 65, 65), normal(7, 65, 65) * 1e-3, np.eye(65, dtype=np.float32) * 1e4):
        preview = Preview(basis.astype(np.float32), normal(8, 65) * 100, np.full(777, 10, np.int32))
        log_prob, token, total, _ = CertifiedLayer.build(*layer[:2], preview).native.topk_details(layer[2], 5)
        check_topk(layer, 5, (log_prob, token), total)


def test_a_preview_comes_back_from_its_arrays():
    layer = layers(0, 300, 33, 9)["normal"]
    preview = fitted(*layer[:2], 7)
    again = Preview.from_arrays(preview.arrays())
    a, b = (CertifiedLayer.build(*layer[:2], p).topk(layer[2], 5) for p in (preview, again))
    assert a.log_prob.tobytes() == b.log_prob.tobytes()


def mixed3(preview: Preview) -> Preview:
    return dataclasses.replace(preview, coordinates=np.resize(np.int32([3, 4]), 10))


W10 = normal(0, 10, 4)
B10 = normal(1, 10)
P10 = fitted(W10, B10, 2)
C10 = CertifiedLayer.build(W10, B10, P10)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit_preview(W10, B10, normal(0, 3, 4), 5), "coordinates is 5; it must be from 1 to the width, 4"),
        (lambda: fit_preview(W10, B10, normal(0, 3, 5)), r"samples has the shape \[3, 5\]"),
        (lambda: fit_preview(W10, B10, normal(0, 0, 4)), r"samples has the shape \[0, 4\]"),
        (lambda: Preview.from_arrays({"basis": W10}), "the preview has no coordinates, shift; fit it again"),
        (lambda: CertifiedLayer.build(normal(0, 10, 5), B10, P10), r"basis of the shape \[4, 4\]"),
        (
            lambda: CertifiedLayer.build(W10, B10, dataclasses.replace(P10, basis=np.zeros((4, 4), np.float32))),
            "inverted",
        ),
        (
            lambda: CertifiedLayer.build(W10, B10, dataclasses.replace(P10, coordinates=P10.coordinates + 3)),
            "5 to 5",
        ),
        (
            lambda: CertifiedLayer.build(W10, B10, dataclasses.replace(P10, coordinates=P10.coordinates[:9])),
            r"\[9\]",
        ),
        (lambda: CertifiedLayer.build(W10, B10, mixed3(P10)), "all but the largest must be multiples of 4"),
        (lambda: CertifiedLayer.build(W10, B10 * np.float32(np.inf), P10), "bias holds"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()
