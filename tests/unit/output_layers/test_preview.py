"""The proven layer answers as the exact one does; told the beam, it keeps all that can matter to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpbeam._core import table_names
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.fit.preview.fit import SURE, find_preview, gains_of, step_gain
from sharpbeam.output_layers.artifact import Stored
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.preview import ARTIFACTS, Preview, PreviewLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.types import Floats, TopK

VOCAB, WIDTH = 700, 52  # neither is a multiple of a panel or a block


def normal(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).normal(0, 1, shape).astype(np.float32)


def matrix(seed: int) -> tuple[Floats, Floats]:
    """Rows whose coordinates fall off, as those of trained models do; some equal, some huge, some zero."""
    weight = normal(seed, VOCAB, WIDTH) * np.float32(0.95) ** np.arange(WIDTH, dtype=np.float32)
    weight[100:110] = weight[99]
    weight[200] *= 50
    weight[300] = 0
    return np.ascontiguousarray(weight), normal(seed + 1, VOCAB)


def hidden(seed: int, rows: int) -> Floats:
    spread = 3 * np.float32(0.9) ** np.arange(WIDTH, dtype=np.float32)
    return np.ascontiguousarray(normal(seed, rows, WIDTH) * spread + 0.5)


WEIGHT, BIAS = matrix(1)
PREVIEW = find_preview(WEIGHT, BIAS, hidden(5, 600))
EXACT = ExactLayer.build(WEIGHT, BIAS)


@pytest.fixture(scope="module", params=table_names())
def layer(request: pytest.FixtureRequest) -> PreviewLayer:
    return PreviewLayer.build(WEIGHT, BIAS, PREVIEW, request.param)


@pytest.mark.parametrize("k", [1, 2, 10, VOCAB])
def test_tokens_and_logits_are_the_exact_layers(layer, k):
    rows = np.concatenate([hidden(6, 60), WEIGHT[95:105] * 3, np.zeros((1, WIDTH), np.float32), hidden(7, 3) * 1e4])
    found, wanted = layer.unnormalized().topk(rows, k), EXACT.unnormalized().topk(rows, k)
    assert np.array_equal(found.token, wanted.token)
    assert np.array_equal(found.log_prob, wanted.log_prob)


@pytest.mark.parametrize("which", ["trust", "whole_trust"])
def test_a_bound_that_is_not_trusted_misses_tokens(which):
    loose = PreviewLayer.build(WEIGHT, BIAS, PREVIEW, **{which: 0.01})
    rows = hidden(8, 400)
    assert not np.array_equal(loose.topk(rows, 10).token, EXACT.topk(rows, 10).token)


def test_the_normalizer_is_near_and_has_the_same_bits_on_every_table(layer):
    rows = hidden(9, 100)
    found = layer.topk(rows, 3)
    error = found.log_prob - EXACT.topk(rows, 3).log_prob
    assert np.sqrt(np.mean(error**2)) < 3 * PREVIEW.normalizers[1].error
    scalar = PreviewLayer.build(WEIGHT, BIAS, PREVIEW, "scalar").topk(rows, 3)
    assert np.array_equal(found.log_prob, scalar.log_prob)
    assert np.array_equal(layer.log_prob(rows, found.token[:, 1].copy()), found.log_prob[:, 1])


@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("isa", table_names())
@pytest.mark.parametrize("scale", [1e-8, 3, 10, 100, 1e3, 1e5, 1e8])
def test_vectors_unlike_those_of_the_fit_have_sound_log_probabilities(measured, isa, scale):
    layer = PreviewLayer.build(WEIGHT, BIAS, PREVIEW, isa, measured=measured)
    rows = hidden(12, 60) * np.float32(scale)
    found, wanted = layer.topk(rows, 5), EXACT.topk(rows, 5)
    assert np.isfinite(found.log_prob).all()
    assert found.log_prob.max() <= 0.0
    assert np.array_equal(found.token, wanted.token)
    assert np.abs(found.log_prob - wanted.log_prob).max() < 0.1
    assert np.array_equal(layer.log_prob(rows, found.token[:, 0].copy()), found.log_prob[:, 0])


def test_a_row_does_not_depend_on_its_neighbors(layer):
    rows = hidden(10, 70)
    together = layer.topk(rows, 4)
    alone = [layer.topk(rows[i : i + 1], 4) for i in range(len(rows))]
    assert np.array_equal(together.log_prob, np.concatenate([one.log_prob for one in alone]))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e30])
def test_rows_without_a_bound_take_the_exact_way(layer, bad):
    rows = hidden(11, 3)
    rows[1, 7] = bad
    found, wanted = layer.topk(rows, 5), EXACT.topk(rows, 5)
    assert np.array_equal(found.token[[0, 2]], wanted.token[[0, 2]])
    assert np.array_equal(found.log_prob[1], wanted.log_prob[1], equal_nan=True)


def needed(top: TopK, score: np.ndarray, width: int, eos: int) -> set[tuple[int, int]]:
    """(row, token) of all candidates with at least the score of the `width`-th best one that does not end."""
    total = score[:, None] + top.log_prob.astype(np.float64)
    bar = np.sort(total[top.token != eos])[-width]
    return {(r, int(top.token[r, j])) for r, j in np.argwhere(total >= bar)}


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 8), st.floats(0, 12))
def test_what_can_matter_to_a_beam_is_kept(seed, rows, width, spread):
    draw = np.random.default_rng(seed)
    vectors, score = hidden(seed, rows), -np.sort(draw.uniform(0, spread, rows))
    one = PreviewLayer.build(WEIGHT, BIAS, PREVIEW)
    eos = int(EXACT.topk(vectors[:1], 1).token[0, 0]) if seed % 2 else 0
    log_prob, token, _, counts = one.native.topk_details(
        vectors, 2 * width, True, np.zeros(rows, np.int32), score, width, eos
    )
    wanted = needed(one.topk(vectors, VOCAB), score, width, eos)
    found = {(r, int(token[r, j])) for r, j in np.argwhere(np.isfinite(log_prob))}
    # At most one candidate of a row ends, so a row has at most width + 1 that matter.
    assert wanted <= found
    assert counts["rows"] == rows


@pytest.mark.parametrize(("error", "more"), [(0.9, ["beam"]), (1.1, []), (float("nan"), [])])
def test_a_beam_is_left_to_sure_normalizers(error, more):
    unsure = replace(PREVIEW.normalizers[1], error=error * SURE)
    preview = replace(PREVIEW, normalizers=(PREVIEW.normalizers[0], unsure))
    assert list(gains_of(WEIGHT, BIAS, preview, hidden(9, 80))) == ["greedy", "scores", *more]


def test_exact_sums_count_against_the_layer():
    proven, scan = PreviewLayer.build(WEIGHT, BIAS, PREVIEW), ScanLayer.build(WEIGHT, BIAS)
    assert step_gain(proven, scan, hidden(9, 80), 5, asked=1e9) < 1e-3 < step_gain(proven, scan, hidden(9, 80), 5)


ARTIFACT = ARTIFACTS["preview"]


def read(arrays, facts) -> Preview:
    return ARTIFACT.read(Stored("preview.safetensors", "Fit it again.", facts, arrays, {"V": VOCAB, "D": WIDTH}))


def test_saving_keeps_everything():
    again = read(*ARTIFACT.write(PREVIEW))
    rows = hidden(12, 20)
    for measured in (False, True):
        one = PreviewLayer.build(WEIGHT, BIAS, PREVIEW, measured=measured)
        two = PreviewLayer.build(WEIGHT, BIAS, again, measured=measured)
        assert np.array_equal(one.topk(rows, 5).log_prob, two.topk(rows, 5).log_prob)


def test_a_share_of_the_bound_finds_nearly_all():
    rows = hidden(13, 1000)
    layer = PreviewLayer.build(WEIGHT, BIAS, PREVIEW, measured=True).unnormalized()
    assert np.mean(layer.topk(rows, 1).token == EXACT.topk(rows, 1).token) >= 0.999


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("basis", np.zeros((WIDTH, WIDTH), np.float32), "inverted"),
        ("basis", np.eye(3, dtype=np.float32), "shape"),
        ("balance", -np.ones(WIDTH, np.float32), "balance"),
        ("coordinates", np.full(VOCAB, 9, np.int32), "multiples of 8"),
        ("coordinates", np.full(VOCAB, 8000, np.int32), "multiples of 8"),
        ("coordinates", np.full(3, 8, np.int32), "it must be int32 of shape"),
        ("sizes", np.zeros_like(PREVIEW.sizes), "trust"),
        ("numbers", np.full(5, np.nan), "numbers"),
    ],
)
def test_a_bad_preview_is_refused(name, value, says):
    arrays, facts = ARTIFACT.write(PREVIEW)
    with pytest.raises((ModelError, OptionError, ValueError), match=says):
        PreviewLayer.build(WEIGHT, BIAS, read({**arrays, name: value}, facts))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_no_preview_makes_an_answer_wrong(seed):
    """Any basis that can be inverted and any coordinates: slower perhaps, but never another answer."""
    draw = np.random.default_rng(seed)
    sizes = np.array([8, 16, 40, 56], np.int32)
    preview = Preview(
        draw.normal(0, 1, (WIDTH, WIDTH)).astype(np.float32),
        draw.normal(0, 1, WIDTH).astype(np.float32),
        draw.uniform(0.01, 10, WIDTH).astype(np.float32),
        draw.choice(sizes, VOCAB),
        draw.choice(sizes, VOCAB),
        np.ones(4, np.float32),
        sizes,
    )
    rows = hidden(seed, 5)
    found = PreviewLayer.build(WEIGHT, BIAS, preview).unnormalized().topk(rows, 7)
    assert np.array_equal(found.token, EXACT.topk(rows, 7).token)


FLOATS = (np.nan, np.inf, -np.inf, 0.0, -1.0, 1e-30, 1e11, 1e30, -1e30)
IDS = (-(2**31), -8, -1, 0, 7, 8, 9, 56, 8000, 2**31 - 1)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**6))
def test_a_hostile_preview_is_refused_or_merely_slow(seed):
    draw = np.random.default_rng(seed)
    saved, facts = ARTIFACT.write(PREVIEW)
    arrays = {name: array.copy() for name, array in saved.items()}
    name = str(draw.choice(sorted(arrays)))
    flat = arrays[name].reshape(-1)
    for _ in range(int(draw.integers(1, 4))):
        values = FLOATS if flat.dtype.kind == "f" else IDS
        flat[int(draw.integers(len(flat)))] = draw.choice(np.array(values, flat.dtype))
    rows = hidden(seed, 3)
    for measured in (False, True):
        try:
            layer = PreviewLayer.build(WEIGHT, BIAS, read(arrays, facts), measured=measured)
        except (ModelError, OptionError, ValueError):
            return
        found = layer.unnormalized().topk(rows, 5)
        if not measured:
            assert np.array_equal(found.token, EXACT.topk(rows, 5).token)


def test_a_floor_keeps_what_is_at_or_above_it(layer):
    rows = hidden(14, 40)
    wanted = layer.topk(rows, 20)
    floor = wanted.log_prob[:, 3].copy()
    log_prob, token, _, counts = layer.native.topk_details(rows, 20, True, floor=floor)
    assert np.array_equal(token[:, :4], wanted.token[:, :4])
    assert np.array_equal(log_prob[:, :4], wanted.log_prob[:, :4])
    assert counts["compared"] < 20 * len(rows)  # it saves work
    assert layer.native.topk_details(rows, 20, True, floor=np.full(len(rows), 99, np.float32))[3]["skipped"] > 0
