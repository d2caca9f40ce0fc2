"""Truths 6 and 8: the native twin equals PyTorch, step by step equals teacher forcing, on every kernel table.

TOLERANCE is absolute, on hidden vectors of size about one; the worst difference seen over the grid is 4e-7.
Every tensor, changed by three parts in a hundred, must break it.
"""

from __future__ import annotations

import numpy as np
import pytest
from unit.language_models.conftest import ids, random_tensors, random_walk

from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.models.native import NativeModel
from sharpbeam.types import Request

torch = pytest.importorskip("torch")

from support.torch_model import TorchModel  # noqa: E402

from sharpbeam.models.lstm_lm.module import LstmLmModule  # noqa: E402

TOLERANCE = 2e-6
SMALL = LstmLmConfig(vocab_size=37, embedding_dim=18, hidden_dim=20, layers=2)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def distance(a, b):
    assert a.shape == b.shape and a.dtype == b.dtype == np.float32
    return float(np.abs(a - b).max())


def test_native_equals_pytorch_on_every_table(config, isa):
    tensors, path = random_tensors(config), random_walk(config)
    native = path.run(NativeModel(config, tensors, isa).open())
    assert np.abs(native).max() > 0.5  # or the tolerance would mean nothing
    assert distance(native, path.run(TorchModel(config, tensors).open())) < TOLERANCE


def test_every_table_gives_the_same_bytes(config, isa):
    tensors, path = random_tensors(config), random_walk(config)
    truth = path.run(NativeModel(config, tensors, "scalar").open())
    assert path.run(NativeModel(config, tensors, isa).open()).tobytes() == truth.tobytes()


def test_a_twin_with_any_tensor_slightly_wrong_is_found_out(config):
    tensors, path = random_tensors(config), random_walk(config)
    truth = path.run(TorchModel(config, tensors).open())
    for name in tensors.keys() - {"output_weight", "output_bias"}:
        broken = tensors | {name: tensors[name] * np.float32(1.03)}
        assert distance(path.run(NativeModel(config, broken).open()), truth) > 5 * TOLERANCE, name


@pytest.mark.parametrize("gates", [(1, 0, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2), (3, 1, 2, 0)])
@pytest.mark.parametrize("tensor", ["weight_ih_l0", "weight_hh_l0", "weight_hh_l1", "bias_ih_l1", "bias_hh_l0"])
def test_a_twin_with_swapped_gates_is_found_out(tensor, gates):
    tensors, path = random_tensors(SMALL), random_walk(SMALL)
    truth = path.run(TorchModel(SMALL, tensors).open())
    parts = np.split(tensors[f"lstm.{tensor}"], 4)
    broken = tensors | {f"lstm.{tensor}": np.concatenate([parts[gate] for gate in gates])}
    assert distance(path.run(NativeModel(SMALL, broken).open()), truth) > 5 * TOLERANCE


def test_step_by_step_equals_teacher_forcing(config, build):
    tensors = random_tensors(config)
    text = np.random.default_rng(3).integers(4, config.vocab_size, 15).astype(np.int32)
    module = LstmLmModule(config)
    module.load_state_dict({name: torch.tensor(tensor) for name, tensor in tensors.items()})
    with torch.inference_mode():
        truth = module.eval()(torch.from_numpy(text.astype(np.int64))[None], module.begin(1))[0][0].numpy()
    for prompt in (1, 6, 15):
        run = build(config, tensors).open()
        state = run.admit([Request(0, text[:prompt])])
        for t in range(prompt - 1, len(text)):
            token = ids(config.bos_id) if t == prompt - 1 else text[t : t + 1]
            hidden, state = run.step(ids(0), state, token)
            assert distance(hidden[0], truth[t]) < TOLERANCE, (prompt, t)
