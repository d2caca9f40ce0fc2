"""Suppressed tokens of a layer that is computed in Python: as of the same layer in the core."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from reference.layers import ReferenceLayer
from support.made_layers import made_requests, opened, whole

from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.interface import OutputLayer
from sharpbeam.output_layers.suppressed import without


@pytest.mark.parametrize("layer", [ReferenceLayer, ExactLayer.build])
def test_nan_does_not_go_with_the_token_that_is_suppressed(layer: Callable[..., OutputLayer]) -> None:
    hidden = whole(3, 3, 8)
    hidden[1] = np.nan
    run = opened(without(layer(whole(1, 60, 8), whole(2, 60)), [0, 1]), made_requests(1))
    for k in (1, 4, 60):
        top = run.topk(hidden, k, np.zeros(3, np.int32))
        assert np.isnan(top.log_prob[:, 0]).tolist() == [False, True, False]


def test_as_in_the_core() -> None:
    weight, bias, hidden = whole(1, 60, 8), whole(2, 60), whole(3, 20, 8)
    suppressed, request = [0, 3, 3, *range(20, 50)], np.zeros(20, np.int32)
    python, core = (
        without(ReferenceLayer(weight, bias), suppressed),
        without(ExactLayer.build(weight, bias), suppressed),
    )
    runs = opened(python, made_requests(1)), opened(core, made_requests(1))
    assert runs[0].native is None and runs[0].reason == "ReferenceLayer is computed in Python"
    assert python.vocab_size == core.vocab_size == 60
    alone = [(1, slice(row, row + 1)) for row in range(20)]  # some of whose best tokens are allowed
    for k, rows in [*((k, slice(20)) for k in (1, 5, 28, 60)), *alone]:
        result, expected = (run.topk(hidden[rows], k, request[rows]) for run in runs)
        assert result.token.tolist() == expected.token.tolist()
        np.testing.assert_allclose(result.log_prob, expected.log_prob, atol=2e-5)
    token = np.arange(20, dtype=np.int32)
    scored = [run.log_prob(hidden, token, request) for run in runs]
    np.testing.assert_allclose(*scored, atol=2e-5)
    for run in runs:
        run.evict(np.zeros(1, np.int32))
