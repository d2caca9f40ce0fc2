"""Layers without their normalizer (CUBE eq. 12): logits stand for log probabilities, in the same order and bits."""

from __future__ import annotations

import numpy as np
import pytest
from reference.layers import ReferenceLayer

from sharpbeam import Translator, _core
from sharpbeam._core import table_names
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.scan import ScanLayer

LAYERS = {"exact": ExactLayer, "scan": ScanLayer}


def layer(seed: int, vocab: int = 700, width: int = 50, rows: int = 9) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    arrays = draw.normal(size=(vocab, width)), draw.normal(size=vocab), draw.normal(size=(rows, width))
    weight, bias, hidden = (array.astype(np.float32) for array in arrays)
    weight[400:500] = weight[:100]  # equal logits, and in other panels
    bias[400:500] = bias[:100]
    return weight, bias, hidden


@pytest.mark.parametrize("kind", LAYERS)
def test_log_probabilities_are_the_logits(kind: str) -> None:
    weight, bias, hidden = layer(1)
    logits = _core.Linear(weight, bias).apply(hidden)
    for isa in table_names():
        for k in (1, 7, 700):
            top = LAYERS[kind].build(weight, bias, isa).unnormalized().topk(hidden, k)
            expected = (-logits).argsort(axis=1, kind="stable")[:, :k]
            assert top.token.tolist() == expected.tolist()
            assert top.log_prob.tobytes() == np.take_along_axis(logits, expected, axis=1).tobytes()


@pytest.mark.parametrize("kind", LAYERS)
def test_forced_ones_have_the_same_bits(kind: str) -> None:
    weight, bias, hidden = layer(2)
    for isa in table_names():
        raw = LAYERS[kind].build(weight, bias, isa).unnormalized()
        top = raw.topk(hidden, 700)
        for rank in (0, 1, 350, 699):
            assert raw.log_prob(hidden, top.token[:, rank].copy()).tobytes() == top.log_prob[:, rank].tobytes()
        with pytest.raises(ValueError, match="token"):
            raw.log_prob(hidden[:1], np.array([700], np.int32))


@pytest.mark.parametrize("kind", LAYERS)
def test_the_layer_itself_goes_on_normalizing(kind: str) -> None:
    weight, bias, hidden = layer(3)
    own = LAYERS[kind].build(weight, bias)
    before = own.topk(hidden, 5)
    raw = own.unnormalized().topk(hidden, 5)
    assert own.topk(hidden, 5).log_prob.tobytes() == before.log_prob.tobytes()
    truth = ReferenceLayer(weight, bias).topk(hidden, 5)
    assert raw.token.tolist() == truth.token.tolist()
    lost = raw.log_prob - before.log_prob  # the normalizer of each row
    np.testing.assert_allclose(lost, np.broadcast_to(lost[:, :1], lost.shape), atol=1e-4)
    assert np.abs(lost).min() > 0.1


@pytest.mark.parametrize("kind", LAYERS)
def test_a_hidden_vector_that_is_no_number_is_seen(kind: str) -> None:
    weight, bias, hidden = layer(4)
    hidden[3, 7] = np.nan
    top = LAYERS[kind].build(weight, bias).unnormalized().topk(hidden, 5)
    assert np.isnan(top.log_prob).any(axis=1).tolist() == [row == 3 for row in range(len(hidden))]


def test_a_translator_does_without(tiny_model) -> None:
    translator = Translator(tiny_model)
    text = "ein Satz"
    options = {"normalize": False, "max_length": 12}
    raw, usual = (translator.translate([text], **choice)[0] for choice in (options, {"max_length": 12}))
    assert raw.token_scores != usual.token_scores
    if raw.text:
        scored = translator.score([text], [raw.text], normalize=False)[0]
        assert scored.token_scores != translator.score([text], [raw.text])[0].token_scores
    with pytest.raises((OptionError, ModelError), match=r"normalize is False|screen"):
        translator.translate([text], normalize=False, output_layer="screen")
