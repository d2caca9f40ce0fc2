"""The attention of a step: a distribution over the row's source, the same in PyTorch and on every kernel table.

TOLERANCE is absolute, on shares between 0 and 1: both sides sum in float32, each in its own order. Keys that are wrong
by three parts in a hundred break it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from sharpbeam.models.interface import Attending, Model
from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.native import NativeModel
from sharpbeam.models.transformer.config import TransformerConfig

TOLERANCE = 1e-5


@dataclass
class Attends:
    """A decoding run whose step says what the rows attend to, over `width` places, in place of their hidden vectors."""

    run: Attending
    width: int

    def __post_init__(self):
        self.admit, self.retain, self.evict = self.run.admit, self.run.retain, self.run.evict

    def step(self, request, state, token):
        weights, state = self.run.attend(request, state, token)
        return np.pad(weights, ((0, 0), (0, self.width - weights.shape[1]))), state


def attention(model: Model, path) -> np.ndarray:
    run = model.open()
    assert isinstance(run, Attending)
    return path.run(Attends(run, max(len(r.source) for r in path.requests)))


def test_rows_are_distributions_over_their_own_source(config, build, make_tensors, walk):
    path = walk(config)
    weights = attention(build(config, make_tensors(config)), path)
    length = np.array([len(path.requests[i].source) for i in np.concatenate(path.request)])
    inside = np.arange(weights.shape[1]) < length[:, None]
    assert weights.dtype == np.float32 and (weights >= 0).all() and (weights[~inside] == 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=0, atol=1e-6)
    assert weights[length == 12].std(axis=1).max() > 0.005  # not the same share for every place


def test_native_equals_pytorch_on_every_table(config, isa, make_tensors, walk):
    pytest.importorskip("torch")
    from support.torch_model import TorchModel

    tensors, path = make_tensors(config), walk(config)
    truth = attention(TorchModel(config, tensors), path)
    assert np.abs(attention(NativeModel(config, tensors, isa), path) - truth).max() < TOLERANCE
    name = "decoder.key_weight" if isinstance(config, LstmAttentionConfig) else "decoder.attention.key_weight"
    if isinstance(config, TransformerConfig):
        name = f"decoder.{config.decoder_layers - 1}.cross.key_value.weight"
    broken = tensors | {name: tensors[name] * np.float32(1.03)}
    assert np.abs(attention(NativeModel(config, broken, isa), path) - truth).max() > 5 * TOLERANCE


def test_a_row_attends_alone_as_among_others_in_bytes(small, isa, make_tensors, walk):
    """And its state continues as that of a plain step does."""
    model, path = NativeModel(small, make_tensors(small), isa), walk(small)
    index, token = np.arange(len(path.requests), dtype=np.int32), np.full(len(path.requests), 5, np.int32)
    together = model.open()
    weights, after = together.attend(index, together.admit(path.requests), token)
    hidden, _ = together.step(index, after, token)
    for i, request in enumerate(path.requests):
        alone, one = model.open(), index[i : i + 1]
        state = alone.admit([request])
        own, _ = alone.attend(one, state, token[:1])
        assert own.shape == (1, len(request.source))
        np.testing.assert_array_equal(own[0], weights[i, : own.shape[1]])
        _, plain = alone.step(one, state, token[:1])
        np.testing.assert_array_equal(alone.step(one, plain, token[:1])[0][0], hidden[i])


def test_wrong_rows_are_named(small, build, make_tensors, make_requests):
    run = build(small, make_tensors(small)).open()
    state = run.admit(make_requests(small, [3]))
    zero = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="request is 9"):
        run.attend(zero + 9, state, zero)
    with pytest.raises(ValueError, match="token 0 is 37"):
        run.attend(zero, state, zero + 37)
    none = zero[:0]
    assert [a.shape for a in run.attend(none, none, none)] == [(0, 0), (0,)]
