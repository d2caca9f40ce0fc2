"""Truths 6 and 8: the native twin equals PyTorch, step by step equals teacher forcing, on every kernel table.

TOLERANCE is absolute, on hidden vectors of size about one. Both sides sum in float32, each in its own order, and the
worst difference seen over the grid is 2.4e-6. Every tensor, changed by three parts in a hundred, must break it.
"""

from __future__ import annotations

import numpy as np
import pytest

from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.native import NativeModel

torch = pytest.importorskip("torch")

from support.torch_model import TorchModel  # noqa: E402

TOLERANCE = 1e-5


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def distance(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype == np.float32
    return float(np.abs(a - b).max())


def test_native_equals_pytorch_on_every_table(config, isa, make_tensors, walk):
    tensors, path = make_tensors(config), walk(config)
    native = path.run(NativeModel(config, tensors, isa).open())
    assert np.abs(native).max() > 0.5  # or the tolerance would mean nothing
    assert distance(native, path.run(TorchModel(config, tensors).open())) < TOLERANCE


def test_a_twin_with_any_tensor_slightly_wrong_is_found_out(config, make_tensors, walk):
    tensors, path = make_tensors(config), walk(config)
    truth = path.run(TorchModel(config, tensors).open())
    for name in tensors.keys() - {"output_weight", "output_bias"}:
        broken = tensors | {name: tensors[name] * np.float32(1.03)}
        assert distance(path.run(NativeModel(config, broken).open()), truth) > 5 * TOLERANCE, name


def swapped(tensors, name, gates):
    parts = np.split(tensors[name], len(gates))
    return tensors | {name: np.concatenate([parts[g] for g in gates])}


@pytest.mark.parametrize("cell", ["encoder.0.forwards", "encoder.0.backwards", "decoder.first", "decoder.second"])
@pytest.mark.parametrize("gates", [(1, 0, 2), (0, 2, 1), (2, 1, 0)])
def test_a_twin_with_swapped_gates_is_found_out(cell, gates, make_tensors, walk):
    config = GruConfig(31, 37, 18, 1, 13, 23, attention_dim=17, hidden_dim=70)
    tensors, path = make_tensors(config), walk(config)
    truth = path.run(TorchModel(config, tensors).open())
    broken = swapped(tensors, f"{cell}.hidden_weight", gates)
    assert distance(path.run(NativeModel(config, broken).open()), truth) > 100 * TOLERANCE


@pytest.mark.parametrize("cell", ["encoder.0.forwards", "encoder.1.backwards", "decoder.layers.0", "decoder.layers.1"])
@pytest.mark.parametrize("gates", [(1, 0, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2), (2, 1, 0, 3)])
def test_an_lstm_twin_with_swapped_gates_is_found_out(cell, gates, make_tensors, walk):
    config = LstmAttentionConfig(31, 37, 18, 2, 24)
    tensors, path = make_tensors(config), walk(config)
    truth = path.run(TorchModel(config, tensors).open())
    broken = swapped(tensors, f"{cell}.hidden_weight", gates)
    assert distance(path.run(NativeModel(config, broken).open()), truth) > 100 * TOLERANCE


def test_an_lstm_twin_that_feeds_or_begins_wrongly_is_found_out(make_tensors, walk):
    """Context and output in the other order, word and fed-back vector in the other order, directions exchanged."""
    config = LstmAttentionConfig(31, 37, 24, 1, 24)
    tensors, path = make_tensors(config), walk(config)
    truth = path.run(TorchModel(config, tensors).open())

    def turned(name):
        first, second = np.split(tensors[name], 2, axis=1)
        return {name: np.concatenate([second, first], axis=1)}

    directions = {name: tensors[name.replace("forwards", "backwards")] for name in tensors if "forwards" in name}
    for change in (turned("decoder.readout_weight"), turned("decoder.layers.0.input_weight"), directions):
        assert distance(path.run(NativeModel(config, tensors | change).open()), truth) > 100 * TOLERANCE


TARGETS = 6  # words of each target


@pytest.fixture
def targets(config):
    return np.random.default_rng(3).integers(0, config.target_vocab_size, (3, TARGETS)).astype(np.int32)


def stepped(model, requests, targets):
    """Hidden vectors [n, T, D] of n targets, word by word."""
    run = model.open()
    state, steps = run.admit(requests), []
    for token in targets.T:
        hidden, state = run.step(np.arange(len(requests), dtype=np.int32), state, token.copy())
        steps.append(hidden)
    return np.stack(steps, axis=1)


def forced(config, tensors, requests, targets):
    """The same, all words at once, by PyTorch in float32."""
    module = TorchModel(config, tensors).module
    words = torch.from_numpy(targets.astype(np.int64))
    sources = [torch.from_numpy(request.source.astype(np.int64))[None] for request in requests]
    with torch.inference_mode():
        return np.concatenate([module(source, None, words[i : i + 1]).numpy() for i, source in enumerate(sources)])


def test_steps_equal_teacher_forcing(config, build, make_tensors, make_requests, targets):
    tensors, requests = make_tensors(config), make_requests(config, (4, 9, 1))
    steps = stepped(build(config, tensors), requests, targets)
    assert distance(steps, forced(config, tensors, requests, targets)) < TOLERANCE


@pytest.mark.parametrize(("compute_type", "most"), [("int16", 3e-3), ("int8", 0.1)])
def test_rounded_steps_are_close_to_teacher_forcing(
    config, isa, compute_type, most, make_tensors, make_requests, targets
):
    """`most` of the length of a target's vectors: the worst of the grid are 1.2e-3 and 0.07, of deep ones.

    Of a mixture of experts 0.12 in int8: where two experts score alike, rounding may take the other one.
    """
    if compute_type == "int8" and getattr(config, "experts", 0):
        most = 0.2
    tensors, requests = make_tensors(config), make_requests(config, (4, 9, 1))
    steps = stepped(NativeModel(config, tensors, isa, compute_type), requests, targets)
    truth = forced(config, tensors, requests, targets)

    def apart(result, expected):
        return np.linalg.norm(result - expected, axis=(1, 2)) / np.linalg.norm(expected, axis=(1, 2))

    assert (apart(steps, truth) < most).all()
    assert (apart(steps[:, :-1], truth[:, 1:]) > most).all()  # one token late
