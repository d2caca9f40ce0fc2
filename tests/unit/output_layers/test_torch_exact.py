"""The PyTorch twin of the output layer gives the reference's top k, ties included."""

from __future__ import annotations

import numpy as np
import pytest
from reference.layers import ReferenceLayer

pytest.importorskip("torch")

from sharpbeam.output_layers.torch import TorchLayer


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("shape", [(1, 8, 20, 1), (7, 33, 200, 5), (4, 3, 65, 65)])
def test_topk_is_the_reference(shape, whole):
    rows, width, vocab, k = shape
    random = np.random.default_rng(rows)
    draw = (lambda *s: random.integers(-2, 3, s)) if whole else (lambda *s: random.normal(size=s))
    weight, bias, hidden = (draw(*s).astype(np.float32) for s in ((vocab, width), (vocab,), (rows, width)))
    twin, truth = TorchLayer(weight, bias), ReferenceLayer(weight, bias)
    got, wanted = twin.topk(hidden, k), truth.topk(hidden, k)
    assert got.token.tolist() == wanted.token.tolist()
    np.testing.assert_allclose(got.log_prob, wanted.log_prob, atol=2e-5, rtol=0)
    np.testing.assert_allclose(twin.log_prob(hidden, got.token[:, 0].copy()), got.log_prob[:, 0], atol=1e-6)


def test_k_beyond_the_vocabulary_is_refused():
    with pytest.raises(ValueError, match="k is 6"):
        TorchLayer(np.ones((5, 2), np.float32), np.zeros(5, np.float32)).topk(np.ones((1, 2), np.float32), 6)
