"""Every table of this machine gives the bytes of the scalar one, and a row's bytes do not depend on its neighbors."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sharpbeam import _core
from sharpbeam._core import table_name, table_names
from sharpbeam.options.machine import COMPUTE_TYPES, Isa

CPU = Path("/proc/cpuinfo")
SIZES = [1, 2, 15, 16, 17, 31, 32, 48, 63, 64, 65, 127, 200, 1000]
HIGHER = [name for name in table_names() if name != "scalar"]
SEEDS = st.integers(0, 2**32 - 1)


def normal(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, scale, shape).astype(np.float32)


def same(a: object, b: object) -> bool:
    """Equal bytes, where every NaN counts as the same."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and np.where(np.isnan(a), 0, a).tobytes() == np.where(np.isnan(b), 0, b).tobytes()


ROUNDED_BY = 0.01


def weights(n: int) -> np.ndarray:
    """From -127 to 127 times ROUNDED_BY, halves among them."""
    return np.random.default_rng(n).integers(-2 * 127, 2 * 127 + 1, n) * (np.float64(np.float32(ROUNDED_BY)) / 2)


CALLS = {
    "tanh": lambda n, isa: _core.tanh(normal(n, n, scale=4), isa),
    "softmax": lambda n, isa: _core.softmax(normal(n, n, scale=5), isa),
    "softmax of rows": lambda n, isa: _core.softmax(normal(n, 7 * n, scale=5), isa, 7),
    "log_sum_exp": lambda n, isa: np.float32(_core.log_sum_exp(normal(n, n, scale=5), isa)),
    "gru": lambda n, isa: _core.gru(normal(1, 3 * n), normal(2, 3 * n), normal(3, n), isa),
    "lstm": lambda n, isa: np.stack(_core.lstm(normal(1, 4 * n), normal(2, 4 * n), normal(3, n), isa)),
    "mlp_scores": lambda n, isa: _core.mlp_scores(normal(1, n), normal(2, 7, n), normal(3, n), isa),
    "dot_scores": lambda n, isa: _core.dot_scores(normal(1, n), normal(2, 7, n), isa),
    "multihead_scores": lambda n, isa: _core.multihead_scores(normal(1, 3 * n), normal(2, 1 + n % 9, 3 * n), 3, isa),
    "multihead_context": lambda n, isa: _core.multihead_context(normal(1, 3, 9), normal(2, 9, 3 * n), isa),
    "multihead_context of ten": lambda n, isa: _core.multihead_context(normal(1, 10, 9), normal(2, 9, 10 * n), isa),
    "add_norm": lambda n, isa: np.stack(
        _core.add_norm(normal(1, n), normal(2, n), normal(3, n), normal(4, n), 1e-5, isa)
    ),
    "add_rms_norm": lambda n, isa: np.stack(_core.add_norm(normal(1, n), normal(2, n), normal(3, n), None, 1e-6, isa)),
    "quantize_weights": lambda n, isa: np.append(*_core.quantize_weights(weights(n), ROUNDED_BY, isa)),
    "ssru": lambda n, isa: np.stack(_core.ssru(normal(1, 2 * n, scale=3), normal(2, n), isa)),
    "relu": lambda n, isa: _core.relu(normal(n, n), isa),
    "gelu": lambda n, isa: _core.gelu(normal(n, n, scale=4), isa),
    "gelu_tanh": lambda n, isa: _core.gelu_tanh(normal(n, n, scale=4), isa),
    "swish": lambda n, isa: _core.swish(normal(n, n, scale=20), 1.7, isa),
    "add": lambda n, isa: _core.add(normal(1, n), normal(2, n), isa),
    "mul": lambda n, isa: _core.mul(normal(1, n), normal(2, n), isa),
}


def test_the_table_in_use_is_the_best():
    assert table_names()[0] == "scalar"
    if not os.environ.get("SHARPBEAM_ISA"):
        assert table_name() == table_names()[-1]


def test_the_option_names_every_table():
    sources = Path(__file__).parents[3].glob("csrc/kernels/isa/*.cpp")
    tables = {re.findall(r'make_table\("(\w+)"\)', source.read_text(encoding="utf-8"))[0] for source in sources}
    assert tables | {"auto", "profiled", "plain"} == set(get_args(Isa))
    assert tables >= set(table_names())


@pytest.mark.skipif(platform.machine() != "x86_64" or not CPU.exists(), reason="reads the flags of an x86 processor")
def test_the_processor_has_the_tables_that_its_flags_say():
    flags = set(re.findall(r"^flags\s*: (.*)", CPU.read_text(encoding="utf-8"), re.MULTILINE)[0].split())
    names = {"avx2": "avx2", "avxvnni": "avx_vnni", "avx512": "avx512bw"}
    names |= {"avx512vnni": "avx512_vnni", "avx512vbmi": "avx512vbmi"}
    for table, flag in names.items():
        assert (table in table_names()) == (flag in flags), table


@pytest.mark.parametrize("isa", HIGHER)
@pytest.mark.parametrize("kernel", CALLS)
def test_kernels_are_bit_equal_to_scalar(kernel, isa):
    for n in SIZES:
        assert same(CALLS[kernel](n, isa), CALLS[kernel](n, "scalar")), n


@pytest.mark.parametrize("isa", table_names())
@pytest.mark.parametrize("size", [1e20, 1e37])
def test_a_norm_whose_squares_overflow_is_no_plausible_zero(isa, size):
    x, ones = normal(1, 40, scale=size), np.ones(40, np.float32)
    for call in (_core.add_norm(x, x, ones, ones, 1e-5, isa), _core.add_norm(x, x, ones, None, 1e-5, isa)):
        assert np.isnan(call[1]).all()


def test_bit_equality_is_not_blind():
    """One lane off by one unit in the last place is seen."""
    y = _core.tanh(normal(0, 100))
    broken = y.copy()
    broken[99] = np.nextafter(broken[99], np.float32(2))
    assert same(y, y)
    assert not same(y, broken)


@pytest.mark.parametrize("isa", HIGHER)
@pytest.mark.parametrize("kernel", ["tanh", "softmax", "log_sum_exp", "relu", "gelu", "gelu_tanh"])
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, -0.0, 1e-42, 3e38])
def test_special_values_are_equal_too(kernel, isa, special):
    for n in (1, 16, 21):
        for at in {0, n // 2, n - 1}:
            x = normal(at, n)
            x[at] = special
            call = getattr(_core, kernel)
            assert same(np.float32(call(x, isa)), np.float32(call(x, "scalar")))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(seed=SEEDS, rows=st.integers(1, 20), inputs=st.integers(1, 70), outputs=st.integers(1, 200), bias=st.booleans())
def test_products_are_bit_equal_and_rows_stand_alone(seed, rows, inputs, outputs, bias):
    matrix = _core.Linear(normal(seed, outputs, inputs), normal(seed + 1, outputs) if bias else None)
    x = normal(seed + 2, rows, inputs)
    truth = matrix.apply(x, "scalar")
    for isa in table_names():
        assert same(matrix.apply(x, isa), truth)
    for row in {0, rows // 2, rows - 1}:
        assert same(matrix.apply(x[row : row + 1]), truth[row : row + 1])


@pytest.mark.parametrize("rows", range(1, 20))
def test_every_split_of_rows(rows):
    matrix, x = _core.Linear(normal(0, 130, 40), normal(1, 130)), normal(2, 19, 40)
    truth = matrix.apply(x, "scalar")
    for isa in table_names():
        assert same(matrix.apply(x[:rows], isa), truth[:rows])


def run_with(isa: str) -> subprocess.CompletedProcess[str]:
    code = "from sharpbeam._core import table_name; print(table_name())"
    environment = os.environ | {"SHARPBEAM_ISA": isa}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("isa", table_names())
def test_the_environment_lowers_the_table(isa):
    assert run_with(isa).stdout.strip() == isa


def test_an_unknown_table_is_refused():
    result = run_with("avx3")
    assert result.returncode != 0
    message = f'ValueError: SHARPBEAM_ISA is "avx3"; this machine can run: {", ".join(table_names())}'
    assert message in result.stderr
    with pytest.raises(ValueError, match='isa is "sse"; this machine can run: scalar'):
        _core.tanh(normal(0, 3), "sse")


@pytest.mark.parametrize("isa", table_names())
@pytest.mark.parametrize("n", SIZES)
def test_weights_are_rounded_to_the_nearest_whole_number(n, isa):
    scale, weight = np.float64(np.float32(ROUNDED_BY)), weights(n)
    whole, lost = _core.quantize_weights(weight, ROUNDED_BY, isa)
    np.testing.assert_array_equal(whole - 128, np.rint(weight / scale))
    assert lost == pytest.approx(np.square(weight - np.rint(weight / scale) * scale).sum(), rel=1e-12)


@pytest.mark.parametrize("isa", table_names())
def test_weights_that_are_too_small_for_a_scale_become_zero(isa):
    whole, lost = _core.quantize_weights(np.full(20, 3e-30), 0.0, isa)
    assert (whole == 128).all() and lost == pytest.approx(20 * 9e-60)


@pytest.mark.parametrize("isa", table_names())
@pytest.mark.parametrize("kind", COMPUTE_TYPES)
def test_the_peak_of_a_table_counts_its_multiply_adds(kind, isa):
    assert _core.run_peak(kind, 100, isa) == 100 * _core.run_peak(kind, 1, isa) > 0
