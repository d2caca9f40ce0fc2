"""The native selection of candidates is the one in NumPy, whatever the rows; and it refuses what does not fit."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.selection import floors, select

from sharpbeam.options.decode import SearchOptions
from sharpbeam.search.selection import Selector
from sharpbeam.search.stopping import Finished, Pool
from sharpbeam.types import Candidates, Rows

EOS = 2


def problem(seed: int, beam: int, k: int, steps: int) -> tuple[Rows, Candidates, list[Pool]]:
    """Requests with one row to `beam` rows, candidates with many ties and some that are not allowed, finished ones."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, beam + 1, draw.integers(1, 6))
    total = int(sizes.sum())

    def rounded(*shape: int) -> np.ndarray:
        return np.round(-draw.exponential(2.0, shape) * steps) / steps

    def ids(high: int) -> np.ndarray:
        return draw.integers(0, high, total).astype(np.int32)

    request = draw.permutation(50)[: len(sizes)].astype(np.int32).repeat(sizes)
    length = draw.integers(0, 8, len(sizes)).astype(np.int32).repeat(sizes)
    rows = Rows(request, ids(99), ids(20), ids(500), length, -np.sort(-rounded(total)))
    log_prob = rounded(total, k).astype(np.float32)
    log_prob[draw.random((total, k)) < 0.2] = -np.inf
    token = draw.integers(0, 6, (total, k)).astype(np.int32)
    pools = []
    for _ in sizes:
        pool = Pool()
        for _ in range(draw.integers(0, beam + 1)):
            pool.add(Finished(float(draw.normal()), float(rounded(1)[0]), 0), beam)
        pools.append(pool)
    return rows, Candidates(token, log_prob, log_prob * np.float32(1.5)), pools


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    beam=st.integers(1, 6),
    k=st.integers(1, 12),
    steps=st.sampled_from([1, 2, 1000]),
    max_score_margin=st.sampled_from([None, 0.0, 1.0, 4.0]),
    max_score_ratio=st.sampled_from([None, 1.0, 1.5]),
    finishing=st.sampled_from(["leave", "stay"]),
    max_length=st.sampled_from([4, 8, 20]),
)
def test_native_is_numpy(seed, beam, k, steps, **values) -> None:
    options = SearchOptions(beam_size=beam, **values)
    rows, found, pools = problem(seed, beam, k, steps)
    keep = 1 if beam == 1 else 2 * beam
    native = Selector(options, EOS, keep)
    if not native.looks_back:
        pools = []
    mine, truth = native.select(rows, found, pools), select(options, EOS, keep, rows, found, pools)
    np.testing.assert_array_equal(mine.first, truth.first)
    np.testing.assert_array_equal(mine.best, truth.best)
    np.testing.assert_array_equal(mine.kept, truth.kept)
    for own, other in ((mine.going, truth.going), (mine.ended, truth.ended)):
        np.testing.assert_array_equal(own.cell, other.cell)
        np.testing.assert_array_equal(own.log_prob, other.log_prob)
        for field in fields(Rows):
            np.testing.assert_array_equal(getattr(own.rows, field.name), getattr(other.rows, field.name))
            assert getattr(own.rows, field.name).dtype == getattr(other.rows, field.name).dtype


def test_the_threshold_is_the_one_of_numpy() -> None:
    for margin, ratio, best in (
        (None, None, -3.0),
        (1.0, None, -3.0),
        (None, 1.5, -3.0),
        (2.0, 1.5, -3.0),
        (2.0, 1.5, -9.0),
    ):
        options = SearchOptions(max_score_margin=margin, max_score_ratio=ratio)
        assert Selector(options, EOS, 10).floor(best) == floors(options, np.array([best]))[0]


def test_what_does_not_fit_is_named() -> None:
    rows, found, pools = problem(1, 3, 4, 10)
    selector = Selector(SearchOptions(beam_size=3, finishing="stay"), EOS, 6)
    with pytest.raises(ValueError, match="top has"):
        selector.select(rows, found, [*pools, Pool()])
    with pytest.raises(ValueError, match="start must rise"):
        selector.select(rows, found, [])
    rows.state = rows.state[1:]
    with pytest.raises(ValueError, match="state has the shape"):
        selector.select(rows, found, pools)
