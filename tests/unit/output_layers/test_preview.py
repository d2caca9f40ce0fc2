"""The preview keeps all that matters, on vectors like those of the fit and on others; with fidelity 1 it is proven."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.made_layers import MadeArtifacts, build_layer

from sharpbeam._core import table_names
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.fit import preview as fit
from sharpbeam.fit.preview import find_preview, gains_of
from sharpbeam.options.decode import OutputLayerOptions
from sharpbeam.output_layers.artifact import Stored
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.preview import ARTIFACTS, PreviewLayer
from sharpbeam.output_layers.registry import LayerInputs, find_output_layer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.types import Floats

VOCAB, WIDTH = 1500, 52  # neither is a multiple of a panel or of a group of codes


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


def matrix(seed: int) -> tuple[Floats, Floats]:
    """Rows whose coordinates fall off, as those of trained models do; some equal, some huge, some zero."""
    weight = normal(seed, VOCAB, WIDTH) * np.float32(0.9) ** np.arange(WIDTH, dtype=np.float32)
    weight[100:110] = weight[99]
    weight[200] *= 50
    weight[300] = 0
    return np.ascontiguousarray(weight), normal(seed + 1, VOCAB)


def hidden(seed: int, rows: int) -> Floats:
    spread = 3 * np.float32(0.9) ** np.arange(WIDTH, dtype=np.float32)
    return np.ascontiguousarray(normal(seed, rows, WIDTH) * spread + 0.5)


WEIGHT, BIAS = matrix(1)
PREVIEW = find_preview(WEIGHT, BIAS, hidden(5, 900))
EXACT, SCAN = ExactLayer.build(WEIGHT, BIAS), ScanLayer.build(WEIGHT, BIAS)
ARTIFACT = ARTIFACTS["preview"]


@pytest.fixture(scope="module", params=table_names())
def layer(request: pytest.FixtureRequest) -> PreviewLayer:
    return PreviewLayer.build(WEIGHT, BIAS, PREVIEW, request.param)


@pytest.mark.parametrize("k", [1, 10, VOCAB])
def test_tokens_and_logits_are_the_exact_layers(layer, k):
    rows = np.concatenate([hidden(6, 300), WEIGHT[95:105] * 3, np.zeros((1, WIDTH), np.float32), hidden(7, 9) * 1e4])
    top, best = layer.unnormalized().topk(rows, k), EXACT.unnormalized().topk(rows, k)
    assert np.array_equal(top.token, best.token)
    assert np.array_equal(top.log_prob, best.log_prob)


def test_few_tokens_take_exact_logits(layer):
    counts = layer.native.topk_details(hidden(8, 400), 1, False)[3]
    assert counts["exact"] < 0.4 * 400 * VOCAB


def test_fewer_deviations_miss_tokens():
    loose = PreviewLayer.build(WEIGHT, BIAS, PREVIEW, deviations=0.1)
    assert not np.array_equal(loose.topk(hidden(8, 400), 10).token, EXACT.topk(hidden(8, 400), 10).token)


def test_deviations_are_those_of_logits():
    """The best tokens are often not the best by their codes, and seldom three deviations below."""
    rows = hidden(9, 500)
    loose = PreviewLayer.build(WEIGHT, BIAS, PREVIEW, deviations=0.0)
    few = PreviewLayer.build(WEIGHT, BIAS, PREVIEW, deviations=3.0)
    best = EXACT.topk(rows, 1).token
    assert (loose.topk(rows, 1).token != best).sum() > 0
    assert (few.topk(rows, 1).token != best).sum() <= 2


def test_every_table_gives_the_same_bits(layer):
    rows = hidden(9, 100)
    scalar = PreviewLayer.build(WEIGHT, BIAS, PREVIEW, "scalar")
    top, same = layer.topk(rows, 7), scalar.topk(rows, 7)
    assert top.log_prob.tobytes() == same.log_prob.tobytes() and top.token.tobytes() == same.token.tobytes()
    assert np.array_equal(layer.log_prob(rows, top.token[:, 1].copy()), top.log_prob[:, 1])


def test_the_normalizer_is_near_and_its_error_is_stated(layer):
    rows = hidden(10, 400)
    total, share = layer.totals(rows, PREVIEW.normalizer)
    best = EXACT.unnormalized().topk(rows, 1).log_prob[:, 0]
    true = best - EXACT.topk(rows, 1).log_prob[:, 0]
    error = np.abs(total - true)
    assert np.sqrt(np.mean(error**2)) < 0.02
    assert np.mean(error <= PREVIEW.normalizer.spread * np.sqrt(share) + 1e-5) > 0.97
    closer, stated = layer.native.closer_normalizers(rows)
    assert np.mean(np.abs(closer - true) <= stated + 1e-5) > 0.97
    assert stated.mean() < 0.5 * np.mean(PREVIEW.normalizer.spread * np.sqrt(share))


@pytest.mark.parametrize("scale", [0.0, 1e-8, 3, 100, 1e5, 1e8])
def test_vectors_unlike_those_of_the_fit_have_sound_log_probabilities(layer, scale):
    rows = hidden(12, 60) * np.float32(scale)
    top, best = layer.topk(rows, 5), EXACT.topk(rows, 5)
    assert np.isfinite(top.log_prob).all() and top.log_prob.max() <= 0.0
    assert np.array_equal(top.token, best.token)
    assert np.abs(top.log_prob - best.log_prob).max() < 0.1


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_rows_without_a_preview_take_the_exact_way(layer, bad):
    rows = hidden(11, 3)
    rows[1, 7] = bad
    top, best = layer.topk(rows, 5), EXACT.topk(rows, 5)
    assert np.array_equal(top.token[[0, 2]], best.token[[0, 2]])
    assert np.array_equal(top.log_prob[1], best.log_prob[1], equal_nan=True)


def test_scores_of_nan_give_no_token_beyond_the_vocabulary(layer):
    """The last panel is longer than the tokens left for it; of such a row all tokens are computed, and no others."""
    rows, request = hidden(12, 4), np.zeros(4, np.int32)
    every = layer.native.topk_details(rows, VOCAB, True)[-1]
    assert layer.native.topk_details(rows, 10, True, request, np.full(4, np.nan), 3)[-1]["exact"] == every["exact"]


def test_a_beam_keeps_what_can_matter(layer):
    """All candidates of a beam's rows with at least the score of the fifth best one."""
    rows, width = hidden(13, 40), 5
    score, request = np.tile(-0.5 * np.arange(width), 8), np.arange(8).repeat(width).astype(np.int32)
    log_prob, token, *_ = layer.native.topk_details(rows, 2 * width, True, request, score, width)
    every = layer.topk(rows, VOCAB)
    for first in range(0, 40, width):
        total = score[first : first + width, None] + every.log_prob[first : first + width].astype(np.float64)
        for r, j in np.argwhere(total >= np.sort(total, axis=None)[-width]):
            assert every.token[first + r, j] in token[first + r][np.isfinite(log_prob[first + r])]


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("width", [1, 5])
def test_a_row_whose_deviations_do_not_hold_takes_exact_logits(width, normalize):
    """A token that is known, and that its codes would rule out, shows it; Firefox's pt-en cut four sentences short."""
    rows = hidden(17, 200)
    score, request = np.zeros(200), (np.arange(200) // width).astype(np.int32)
    layer = PreviewLayer.build(WEIGHT, BIAS, PREVIEW, deviations=0.01)
    log_prob, token, *_, counts = layer.native.topk_details(rows, 1, normalize, request, score, width)
    exact = ExactLayer.build(WEIGHT, BIAS)
    best = (exact if normalize else exact.unnormalized()).topk(rows, 1)
    found = token[:, 0] == best.token[:, 0]
    leading = best.log_prob.reshape(-1, width).argmax(axis=1) + np.arange(0, 200, width)  # of each request
    assert np.isfinite(log_prob[leading]).all() and found[leading].mean() > 0.9
    assert 0 < counts["whole"] < 200


def test_with_fidelity_1_it_is_the_scan():
    artifacts = MadeArtifacts(WEIGHT, BIAS)
    entry = find_output_layer("preview")
    top = build_layer("preview", artifacts)
    assert isinstance(top, PreviewLayer)
    inputs = LayerInputs(WEIGHT, BIAS, artifacts, Path(), lambda name: SCAN)
    assert entry.build(replace(inputs, options=OutputLayerOptions("preview", fidelity=1.0))) is SCAN
    with pytest.raises(OptionError, match=r"at most 0\.9999 with preview"):
        entry.build(replace(inputs, options=OutputLayerOptions("preview", fidelity=0.99999)))


@pytest.mark.parametrize("case", ["ties", "zeros", "one", "few", "narrow", "huge", "alike"])
def test_adversarial_matrices(case):
    """Where codes say nothing, all tokens take exact logits; nothing is wrong, and nothing fails."""
    vocab = {"one": 1, "few": 9}.get(case, 300)
    width = 3 if case == "narrow" else 37
    weight, bias = normal(20, vocab, width), normal(21, vocab)
    if case == "ties":
        weight[:], bias[:] = np.round(weight), 0
        weight[150:], weight[149] = weight[:150], weight[0]
    if case == "zeros":
        weight[:] = 0
    if case == "huge":
        weight[::7] *= 1e6
    if case == "alike":
        weight[:] = weight[0]
    rows = normal(22, 200, width)
    preview = find_preview(weight, bias, normal(23, 2 if case == "few" else 300, width))
    layer, exact = PreviewLayer.build(weight, bias, preview), ExactLayer.build(weight, bias)
    k = min(5, vocab)
    top, best = layer.unnormalized().topk(rows, k), exact.unnormalized().topk(rows, k)
    assert np.array_equal(top.token, best.token) and np.array_equal(top.log_prob, best.log_prob)
    assert np.isfinite(layer.topk(rows, k).log_prob).all()


@pytest.mark.parametrize("vocab", [1, 3, 9])
def test_equal_rows_are_not_lost_to_rounding(vocab):
    """Their codes are exact, so that float32 alone tells previews from logits."""
    for seed in range(40):
        weight, bias = np.resize(normal(seed, 1, 31), (vocab, 31)), np.zeros(vocab, np.float32)
        preview, rows = find_preview(weight, bias, normal(seed + 1, 50, 31)), normal(seed + 2, 200, 31)
        layer, exact = PreviewLayer.build(weight, bias, preview), ExactLayer.build(weight, bias)
        assert np.array_equal(layer.unnormalized().topk(rows, 1).log_prob, exact.unnormalized().topk(rows, 1).log_prob)


def test_a_token_that_is_met_exactly_widens_no_deviation_without_bound():
    preview = find_preview(normal(0, 17, 4), np.zeros(17, np.float32), normal(1, 1000, 4))
    assert 0 < preview.deviation.max() < 10


def read(arrays, facts):
    return ARTIFACT.read(Stored("preview.safetensors", "Fit it again.", facts, arrays, {"V": VOCAB, "D": WIDTH}))


def test_saving_keeps_everything():
    again = PreviewLayer.build(WEIGHT, BIAS, read(*ARTIFACT.write(PREVIEW)))
    rows = hidden(12, 20)
    assert np.array_equal(
        again.topk(rows, 5).log_prob, PreviewLayer.build(WEIGHT, BIAS, PREVIEW).topk(rows, 5).log_prob
    )


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("basis", np.eye(3, dtype=np.float32), "shape"),
        ("basis", np.full((WIDTH, WIDTH), 1e30, np.float32), "basis must be"),
        ("lengths", np.zeros_like(PREVIEW.lengths), "lengths"),
        ("lengths", PREVIEW.lengths[:-1].copy(), "lengths"),
        ("codes", PREVIEW.codes[:, :1].copy(), "codes has the shape"),
        ("deviation", -PREVIEW.deviation, "deviation must be"),
        ("scale", np.full(VOCAB, np.inf, np.float32), "scale must be"),
        ("normalizer", -np.ones(4), "normalizer must be"),
    ],
)
def test_a_bad_preview_is_refused(name, value, says):
    arrays, facts = ARTIFACT.write(PREVIEW)
    with pytest.raises((ModelError, OptionError, ValueError), match=says):
        PreviewLayer.build(WEIGHT, BIAS, read({**arrays, name: value}, facts))


def test_gains_are_those_of_steps():
    gains = gains_of(PreviewLayer.build(WEIGHT, BIAS, PREVIEW), ScanLayer.build(WEIGHT, BIAS), hidden(14, 80))
    assert list(gains) == ["greedy", "scores"] and min(gains.values()) > 0


@pytest.mark.parametrize("kind", ["heavy tails", "near tokens"])
def test_errors_of_best_tokens_widen_all_deviations(monkeypatch, kind):
    draw = np.random.default_rng(3)
    weight = normal(1, VOCAB, WIDTH) * np.float32(0.97) ** np.arange(WIDTH, dtype=np.float32)
    near = 2 * weight[draw.integers(0, VOCAB, 900)] + 0.3 * normal(6, 900, WIDTH)
    heavy = normal(5, 900, WIDTH) / np.sqrt(draw.chisquare(1.5, (900, WIDTH)))
    samples = np.ascontiguousarray(near if kind == "near tokens" else heavy, np.float32)
    widened, usual = find_preview(weight, BIAS, samples), find_preview(weight, BIAS, normal(4, 900, WIDTH))
    monkeypatch.setattr(fit, "ERRORS", 0.0)
    plain = find_preview(weight, BIAS, samples)
    by = widened.deviation / plain.deviation
    assert 1.15 < by.min() == pytest.approx(by.max())
    token = ExactLayer.build(weight, BIAS).topk(samples, 1).token[:, 0]
    logit = (weight[token] * samples).sum(axis=1) + BIAS[token]
    before, after = (fit._errors(one, samples, token, logit) for one in (plain, widened))
    np.testing.assert_allclose(before, after * by.min(), rtol=1e-4)
    np.testing.assert_array_equal(usual.deviation, find_preview(weight, BIAS, normal(4, 900, WIDTH)).deviation)
