"""Output layers in the form for GPUs, on the CPU, against the references of tests/reference/layers.py."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from reference.candidates import union
from reference.layers import ReferenceLayer
from support.made_layers import MadeArtifacts, normal, whole

from sharpbeam import OptionError
from sharpbeam.options.decode import OutputLayerOptions
from sharpbeam.output_layers.registry import LayerInputs

torch = pytest.importorskip("torch")

from sharpbeam.gpu.layers import DeviceLayer, build_layer  # noqa: E402
from sharpbeam.gpu.vectors import Vectors  # noqa: E402

CPU, WIDTH, VOCAB, ROWS = torch.device("cpu"), 12, 40, 23


def made(draw):
    """A matrix, a bias, hidden vectors and drawn artifacts."""
    weight, bias, hidden = draw(1, VOCAB, WIDTH), draw(2, VOCAB), draw(3, ROWS, WIDTH)
    return weight, bias, hidden, MadeArtifacts(weight, bias)


def on_device(name, weight, bias, artifacts):
    dense = DeviceLayer(weight, bias, Vectors(CPU, torch.float32, WIDTH), CPU, torch.float32)
    name, _, sets = name.partition(" ")
    options = OutputLayerOptions(screen_sets=sets or "tested")
    inputs = LayerInputs(weight, bias, artifacts, Path(), lambda other: dense, options=options)
    return dense if name == "exact" else build_layer(name, lambda: inputs, dense)


def assert_same(layer, truth, hidden, k):
    result, expected = layer.topk(hidden, k), truth.topk(hidden, k)
    np.testing.assert_array_equal(result.token, expected.token)
    np.testing.assert_allclose(result.log_prob, expected.log_prob, rtol=0, atol=1e-4)
    token = np.random.default_rng(1).integers(0, VOCAB, len(hidden)).astype(np.int32)
    np.testing.assert_allclose(layer.log_prob(hidden, token), truth.log_prob(hidden, token), rtol=0, atol=2e-3)


@pytest.mark.parametrize("draw", [normal, whole])
@pytest.mark.parametrize("k", [1, 10, VOCAB])
def test_exact(draw, k) -> None:
    weight, bias, hidden, artifacts = made(draw)
    assert_same(on_device("exact", weight, bias, artifacts), ReferenceLayer(weight, bias), hidden, k)


def test_union() -> None:
    weight, bias, hidden, artifacts = made(whole)
    screen = artifacts.screen().by_scope[""]
    layer = on_device("screen union", weight, bias, artifacts)
    for rows in (hidden[:1], hidden[:3]):
        cluster = np.argmax(rows @ screen.weight.T + screen.bias, axis=1).astype(np.int32)
        tokens = union(cluster, screen.token, screen.start)
        truth = ReferenceLayer(weight[tokens], bias[tokens]).topk(rows, 1)
        result = layer.topk(rows, 1)
        np.testing.assert_array_equal(result.token, tokens[truth.token])
        np.testing.assert_allclose(result.log_prob, truth.log_prob, rtol=0, atol=1e-4)
        outside = np.full(len(rows), np.setdiff1d(np.arange(VOCAB), tokens)[0], np.int32)
        assert (layer.log_prob(rows, outside) == -np.inf).all()


def test_without_a_normalizer_logits_stand_for_log_probabilities() -> None:
    weight, bias, hidden, artifacts = made(whole)
    layer = on_device("exact", weight, bias, artifacts).unnormalized()
    np.testing.assert_array_equal(layer.topk(hidden, 3).log_prob, np.sort(hidden @ weight.T + bias, axis=1)[:, :-4:-1])


def test_k_and_names_are_checked() -> None:
    weight, bias, hidden, artifacts = made(normal)
    with pytest.raises(OptionError, match="k is 41; it must be from 1 to the vocabulary size, 40"):
        on_device("exact", weight, bias, artifacts).topk(hidden, VOCAB + 1)
    with pytest.raises(OptionError, match="output_layer is 'preview'; on a GPU it must be"):
        on_device("preview", weight, bias, artifacts)
    with pytest.raises(OptionError, match="screen_sets is 'tested'; it must be union on a GPU"):
        on_device("screen", weight, bias, artifacts)
