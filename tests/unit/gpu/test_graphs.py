"""CUDA graphs, with a capture that runs again in the same place: padding, rows that fill up, pools that grow."""

from __future__ import annotations

import numpy as np
import pytest
from support.made_layers import MadeArtifacts, whole

from sharpbeam.models.native import NativeModel

torch = pytest.importorskip("torch")

from sharpbeam.gpu import graphs  # noqa: E402
from sharpbeam.gpu.layers import DeviceLayer, UnionLayer  # noqa: E402
from sharpbeam.gpu.model import DeviceModel  # noqa: E402
from sharpbeam.gpu.vectors import Vectors  # noqa: E402

CPU = torch.device("cpu")


@pytest.fixture
def captures(monkeypatch):
    """The graphs captured: each is a function that runs again, and writes where its first run wrote."""
    made = []

    def capture(run):
        result = run()
        made.append(run)
        return result, lambda: result.copy_(run())

    monkeypatch.setattr(graphs, "capture", capture)
    return made


@pytest.mark.parametrize(("rows", "padded"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 6), (7, 8), (40, 48), (640, 768)])
def test_a_graph_serves_a_few_rows_more(rows, padded) -> None:
    assert graphs.padded_rows(rows) == padded


@pytest.mark.parametrize("name", ["transformer", "ssru"])
def test_replayed_steps_give_the_native_vectors(name, captures, make_tensors, make_requests) -> None:
    from sharpbeam.models.transformer.config import TransformerConfig

    kinds = {"transformer": "attention", "ssru": "ssru"}
    config = TransformerConfig(31, 37, 24, 1, 2, 2, 2, decoder_kind=kinds[name], encoder_ffn_dim=20, decoder_ffn_dim=20)
    tensors, requests = make_tensors(config), make_requests(config, (5, 1, 12, 3, 7))
    model, native = DeviceModel(config, tensors, CPU), NativeModel(config, tensors).open()
    model.graphs = True
    device, draw = model.open(), np.random.default_rng(5)
    states, owner = [device.admit(requests), native.admit(requests)], np.arange(5, dtype=np.int32)
    for step in range(70):  # beyond the first 64 cells of a row, so that the tables move
        parent = draw.integers(0, len(owner), int(draw.integers(1, 12)))
        owner, token = owner[parent], draw.integers(0, 37, len(parent)).astype(np.int32)
        tickets, first = device.step(owner, states[0][parent], token)
        truth, second = native.step(owner, states[1][parent], token)
        np.testing.assert_allclose(model.vectors.take(tickets).numpy(), truth, rtol=0, atol=2e-5, err_msg=str(step))
        states = [first, second]
        device.retain(first)
        native.retain(second)
    assert len(captures) < 40  # most steps were replayed


@pytest.mark.parametrize("kind", ["exact", "union"])
def test_replayed_answers_are_those_of_the_layer(kind, captures) -> None:
    weight, bias, hidden = whole(1, 40, 12), whole(2, 40), whole(3, 23, 12)
    layer = DeviceLayer(weight, bias, Vectors(CPU, torch.float32, 12), CPU, torch.float32)
    if kind == "union":
        layer = UnionLayer(layer, MadeArtifacts(weight, bias).screen().by_scope[""])
    expected = [layer.topk(hidden[:rows], 4) for rows in (5, 6, 1, 23)]
    layer.graphs = True
    for rows, truth in zip((5, 6, 1, 23), expected, strict=True):
        outcome = layer.topk(hidden[:rows], 4)
        np.testing.assert_array_equal(outcome.token, truth.token)
        np.testing.assert_array_equal(outcome.log_prob, truth.log_prob)
    assert len(captures) == 3  # 5 and 6 rows share one


def test_a_run_forgets_its_graphs_when_another_has_moved_the_positions(captures, make_tensors, make_requests) -> None:
    from sharpbeam.models.transformer.config import TransformerConfig

    config = TransformerConfig(31, 37, 24, 1, 1, 2, 2, encoder_ffn_dim=20, decoder_ffn_dim=20)
    model = DeviceModel(config, make_tensors(config), CPU)
    model.graphs = True
    first, second = model.open(), model.open()
    token, owner = np.array([3], np.int32), np.zeros(1, np.int32)
    state = first.admit(make_requests(config, (5,)))
    _, state = first.step(owner, state, token)
    _, state = first.step(owner, state, token)
    assert len(captures) == 1
    second.admit(make_requests(config, (65,)))  # one more than there are positions
    first.step(owner, state, token)
    assert len(captures) == 2


def test_few_numbers_of_best_tokens_are_captured_and_large_ones_none(captures) -> None:
    draw = np.random.default_rng(3)
    weight, bias = draw.normal(size=(90, 16)).astype(np.float32), draw.normal(size=90).astype(np.float32)
    hidden = draw.normal(size=(5, 16)).astype(np.float32)
    layer = DeviceLayer(weight, bias, Vectors(CPU, torch.float32, 16), CPU, torch.float32)
    layer.graphs = True
    order = np.argsort(-(hidden @ weight.T + bias), axis=1)
    for k in (9, 10, 11, 12, 33, 90):
        assert np.array_equal(layer.topk(hidden, k).token, order[:, :k])
    assert len(captures) == 1
    assert layer.unnormalized() is layer.unnormalized()
