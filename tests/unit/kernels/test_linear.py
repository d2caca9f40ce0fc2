"""Products of rounded weights and inputs: as the reference says, the same bytes on every table, each row by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import kernels as reference

from sharpbeam import _core
from sharpbeam._core import table_names
from sharpbeam.options.machine import COMPUTE_TYPES

MOST = {"int8": 127, "int16": 2047}  # multiples that inputs are rounded to
SEEDS = st.integers(0, 2**32 - 1)


def normal(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def product(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, most: int) -> np.ndarray:
    return reference.gemm(reference.rounded(x, most), reference.rounded(weight, most), bias)


@pytest.mark.parametrize("isa", table_names())
def test_int8_is_the_product_of_what_was_rounded(isa):
    """Sums are whole numbers, so only the last three operations on floats round. Scales as in real layers."""
    x, weight, bias = normal(1, 9, 130), normal(2, 75, 130, scale=0.1), normal(3, 75)
    y = _core.Linear(weight, bias, "int8").apply(x, isa)
    truth, tolerance = product(x, weight, bias, 127), 1e-6
    assert np.abs(y - truth).max() <= tolerance
    for broken in (product(x, weight, bias, 126), product(x * np.float32(1.001), weight, bias, 127), truth + 2e-6):
        assert np.abs(y - broken).max() > tolerance


@pytest.mark.parametrize("kind", MOST)
def test_rounding_loses_what_the_bound_says(kind):
    """|y - exact| <= (|x|_1 step_w + |w|_1 step_x + in step_w step_x / 2) / 2, where a step is what is rounded to."""
    x, weight, bias = normal(1, 9, 320), normal(2, 75, 320, scale=0.1), normal(3, 75)
    y = _core.Linear(weight, bias, kind).apply(x)
    exact = reference.gemm(x, weight, bias)
    step_x = np.abs(x).max(axis=1)[:, None] / MOST[kind]
    step_w = np.abs(weight).max(axis=1)[None, :] / MOST[kind]
    lost = np.abs(x).sum(axis=1)[:, None] * step_w + np.abs(weight).sum(axis=1)[None, :] * step_x
    bound = (lost + 320 * step_w * step_x / 2) / 2
    assert (np.abs(y - exact) <= bound).all()
    wrong = _core.Linear(np.roll(weight, 1, axis=0), bias, kind).apply(x)
    assert (np.abs(wrong - exact) > bound).any()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    seed=SEEDS,
    rows=st.integers(1, 20),
    inputs=st.integers(1, 150),
    outputs=st.integers(1, 200),
    bias=st.booleans(),
    kind=st.sampled_from(COMPUTE_TYPES),
)
def test_tables_are_bit_equal_and_rows_stand_alone(seed, rows, inputs, outputs, bias, kind):
    product = _core.Linear(normal(seed, outputs, inputs), normal(seed + 1, outputs) if bias else None, kind)
    x = normal(seed + 2, rows, inputs)
    truth = product.apply(x, "scalar")
    for isa in table_names():
        assert product.apply(x, isa).tobytes() == truth.tobytes()
    for row in range(rows):
        assert product.apply(x[row : row + 1]).tobytes() == truth[row : row + 1].tobytes()


@pytest.mark.parametrize(
    ("kind", "rows", "inputs"),
    [("int8", 200, 37), ("int16", 200, 37), ("int8", 70, 1001), ("int8", 9, 8193), ("int8", 3, 65536)],
)
def test_rows_that_are_taken_in_several_passes(kind, rows, inputs):
    product, x = _core.Linear(normal(0, 70, inputs), None, kind), normal(1, rows, inputs)
    truth = product.apply(x, "scalar")
    assert product.apply(x[-1:], "scalar").tobytes() == truth[-1:].tobytes()
    for isa in table_names():
        assert product.apply(x, isa).tobytes() == truth.tobytes(), isa


@pytest.mark.parametrize("kind", MOST)
@pytest.mark.parametrize("isa", table_names())
def test_a_nan_stays_in_its_row(kind, isa):
    product, x = _core.Linear(normal(0, 40, 150), None, kind), normal(1, 3, 150)
    for place in (0, 15, 63, 64, 127, 128, 149):
        broken = x.copy()
        broken[1, place] = np.nan
        y = product.apply(broken, isa)
        assert np.isnan(y[1]).all(), place
        assert y[::2].tobytes() == product.apply(x, isa)[::2].tobytes()


@pytest.mark.parametrize("kind", COMPUTE_TYPES)
@pytest.mark.parametrize("isa", table_names())
def test_rows_of_extremes(kind, isa):
    """All weights and inputs as large as they get, of one sign and of both: nothing wraps or saturates."""
    for width in (1, 2, 3, 4, 63, 64, 65, 512, 4096):
        for signs in ([1.0], [-1.0], [1.0, -1.0]):
            row = np.resize(np.array(signs, np.float32), width)
            y = _core.Linear(np.stack([row, -row]), None, kind).apply(np.stack([row, np.ones_like(row)]), isa)
            truth = np.array([[width, -width], [row.sum(), -row.sum()]])
            assert np.abs(y - truth).max() <= 1e-3 * width


@pytest.mark.parametrize("kind", COMPUTE_TYPES)
def test_rows_and_weights_of_zeros(kind):
    weight, bias = normal(1, 20, 30), normal(2, 20)
    weight[3] = 0
    x = normal(3, 4, 30)
    x[2] = 0
    y = _core.Linear(weight, bias, kind).apply(x)
    assert (y[2] == bias).all() and (y[:, 3] == bias[3]).all()
    assert np.isfinite(y).all()


def test_a_type_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match=f'compute_type is "int4"; it must be one of {", ".join(COMPUTE_TYPES)}'):
        _core.Linear(normal(0, 3, 3), None, "int4")
