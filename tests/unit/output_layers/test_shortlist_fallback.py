"""The shortlist under its fallback test: which rows fall back, and to what answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.made_layers import MadeArtifacts, made_requests, normal, opened

from sharpbeam._core import table_names
from sharpbeam.fit.fallback_test import FallbackRows, calibrated, certainty, fit_network, measure_test
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.preview import PreviewLayer
from sharpbeam.output_layers.shortlist import ShortlistFallbackLayer, ShortlistLayer, ShortlistTest

VOCAB, WIDTH = 300, 24
GIVEN = MadeArtifacts(normal(1, VOCAB, WIDTH), normal(2, VOCAB))
SHORTLIST = GIVEN.shortlist()
PROVEN = PreviewLayer.build(GIVEN.weight, GIVEN.bias, GIVEN.read("preview"))
REQUESTS = made_requests(4)
NEVER, ALWAYS = 1e30, -1e30  # thresholds at which the net is never sure, and always


def rows_of(count: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    return normal(seed, count, WIDTH), draw.choice([r.index for r in REQUESTS], count).astype(np.int32)


def looked_at(count: int, seed: int = 3, k: int = 1) -> FallbackRows:
    """Drawn rows with what all logits say; the bar is the k-th best logit of the set."""
    hidden, request = rows_of(count, seed)
    logits = hidden @ GIVEN.weight.T + GIVEN.bias
    inside = np.zeros(logits.shape, bool)
    for one in REQUESTS:
        inside[np.ix_(request == one.index, SHORTLIST.tokens(np.asarray(one.source)))] = True
    own, others = np.where(inside, logits, -np.inf), np.where(inside, -np.inf, logits)
    bar = np.sort(own, axis=1)[:, -k]
    sums = (np.logaddexp.reduce(each, axis=1) for each in (own, others))
    best = own.max(axis=1)
    return FallbackRows(hidden, request, best, *sums, bar, others.max(axis=1) > bar)


@pytest.fixture(scope="module")
def net() -> ShortlistTest:
    """Fitted to drawn rows, of whose sets most lack the best token."""
    return calibrated(replace(fit_network(looked_at(6000)), most_share=0.97), looked_at(3000, 4), 0.9)


def layer_of(net: ShortlistTest, isa: str = "auto") -> ShortlistFallbackLayer:
    return ShortlistFallbackLayer(GIVEN.weight, GIVEN.bias, SHORTLIST, net, PROVEN, isa)


@pytest.mark.parametrize("k", [1, 7])
def test_never_sure_is_the_layer_of_all_tokens(net, k):
    """Normalizers too, where no row's is the net's."""
    hidden, request = rows_of(80)
    layer = layer_of(replace(net, threshold=NEVER, most_share=-1.0))
    run, expected = opened(layer, REQUESTS), PROVEN.topk(hidden, k)
    result = run.topk(hidden, k, request)
    assert result.token.tobytes() == expected.token.tobytes()
    assert result.log_prob.tobytes() == expected.log_prob.tobytes()
    token = expected.token[:, -1].copy()
    assert run.log_prob(hidden, token, request).tobytes() == PROVEN.log_prob(hidden, token).tobytes()
    assert layer.fallback_share == 1.0
    exact = ExactLayer.build(GIVEN.weight, GIVEN.bias).topk(hidden, k)
    sure = opened(layer_of(replace(net, threshold=NEVER, most_share=1.0)), REQUESTS)
    assert sure.topk(hidden, k, request).token.tobytes() == exact.token.tobytes()


def test_always_sure_is_the_shortlist_with_the_mass_outside_in_its_normalizer(net):
    hidden, request = rows_of(80)
    layer = layer_of(replace(net, threshold=ALWAYS, most_share=1.0))
    alone = opened(ShortlistLayer(GIVEN.weight, GIVEN.bias, SHORTLIST), REQUESTS).topk(hidden, 5, request)
    run = opened(layer, REQUESTS)
    result = run.topk(hidden, 5, request)
    assert result.token.tolist() == alone.token.tolist() and layer.fallback_share == 0.0
    moved = alone.log_prob - result.log_prob
    np.testing.assert_allclose(moved, np.tile(moved[:, :1], 5), atol=1e-5)
    rows = looked_at(80)
    true = np.log1p(np.exp(rows.outside - rows.inside))
    assert np.corrcoef(moved[:, 0], true)[0, 1] > 0.3 and (moved > 0).all()
    nothing = ShortlistTest(net.inner, net.bias, net.outer * 0, np.float32([[0, 0, -1e4], [0, 0, 0]]), ALWAYS, 1.0)
    same = opened(layer_of(nothing), REQUESTS).topk(hidden, 5, request)
    assert same.log_prob.tobytes() == alone.log_prob.tobytes()


@pytest.mark.parametrize("isa", table_names())
def test_rows_fall_back_as_the_fit_says(net, isa):
    """The core's test is the one that was calibrated, and answers of the others are their set's best."""
    rows = looked_at(400, 6)
    sure = certainty(net, rows)
    near = np.abs(sure - net.threshold) < 1e-3
    run = opened(layer := layer_of(net, isa), REQUESTS)
    fallen = []
    for i in range(len(sure)):
        before = layer.native.rows_fallen_back
        run.topk(rows.hidden[i : i + 1], 1, rows.sentence[i : i + 1])
        fallen.append(layer.native.rows_fallen_back > before)
    expected = sure < np.float32(net.threshold)
    assert 0.1 < expected.mean() < 0.9
    assert (np.array(fallen) == expected)[~near].all() and near.mean() < 0.05
    result = run.topk(rows.hidden, 1, rows.sentence).token[:, 0]
    missed = result != ExactLayer.build(GIVEN.weight, GIVEN.bias).topk(rows.hidden, 1).token[:, 0]
    assert missed[~near].tolist() == (rows.miss & ~expected)[~near].tolist()


def test_the_fidelity_holds_on_fresh_rows(net):
    fresh = looked_at(4000, 5)
    result = measure_test(net, fresh)
    assert result.alone < 0.8 and result.fidelity > 0.89 and 0.2 < result.fallback < 0.9
    assert result.bound < result.fidelity
    strict = calibrated(net, looked_at(3000, 4), 0.98)
    assert strict.threshold > net.threshold
    assert measure_test(strict, fresh).fidelity > result.fidelity


def test_bad_tests_and_fallbacks_are_refused(net):
    arrays = (GIVEN.weight, GIVEN.bias, SHORTLIST)
    for wrong, message in (
        (replace(net, inner=net.inner[:, 1:].copy()), "inner has the shape"),
        (replace(net, bias=net.bias[1:].copy()), "inner_bias has the shape"),
        (replace(net, outer=net.outer[:1].copy()), "outer has the shape"),
        (replace(net, direct=net.direct[:, :2].copy()), "direct has the shape"),
        (replace(net, inner=net.inner[:0], bias=net.bias[:0], outer=net.outer[:, :0].copy()), "test has no units"),
    ):
        with pytest.raises(ValueError, match=message):
            layer_of(wrong)
    other = ExactLayer.build(normal(1, VOCAB - 1, WIDTH), normal(2, VOCAB - 1))
    with pytest.raises(ValueError, match="fallback is for"):
        ShortlistFallbackLayer(*arrays, net, other)
    broken = replace(net, threshold=float("nan"), most_share=float("nan"))
    hidden, request = rows_of(20)
    assert opened(layer := layer_of(broken), REQUESTS).topk(hidden, 1, request) and layer.fallback_share == 1.0
