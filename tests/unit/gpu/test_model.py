"""Models in the form for GPUs, on the CPU in float32: hidden vectors and attention of the native ones, shared cells."""

from __future__ import annotations

import numpy as np
import pytest
from unit.conftest import TRANSFORMER_GRID

from sharpbeam import OptionError
from sharpbeam.models.native import NativeModel

torch = pytest.importorskip("torch")

from sharpbeam.gpu.model import DeviceModel  # noqa: E402

TOLERANCE = 2e-5
CPU = torch.device("cpu")
SMALL = pytest.mark.parametrize("small", ["transformer", "experts", "ssru"], indirect=True)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Taken:
    """A run whose hidden vectors are brought to the host, as those of other models are."""

    def __init__(self, model):
        self.model, self.run = model, model.open()
        self.admit, self.retain = self.run.admit, self.run.retain

    def step(self, request, state, token):
        tickets, state = self.run.step(request, state, token)
        return self.model.vectors.take(tickets).float().numpy(), state


@pytest.mark.parametrize("config", TRANSFORMER_GRID, indirect=True)
def test_hidden_vectors_are_the_native_ones(config, make_tensors, walk):
    tensors, path = make_tensors(config), walk(config)
    result = path.run(Taken(DeviceModel(config, tensors, CPU)))
    truth = path.run(NativeModel(config, tensors).open())
    assert np.abs(truth).max() > 0.5
    np.testing.assert_allclose(result, truth, rtol=0, atol=TOLERANCE)


@SMALL
def test_attention_is_the_native_one(small, make_tensors, walk):
    tensors, path = make_tensors(small), walk(small)
    runs = [DeviceModel(small, tensors, CPU).open(), NativeModel(small, tensors).open()]
    states = [run.admit(path.requests) for run in runs]
    for request, parent, token in zip(path.request, path.parent, path.token, strict=True):
        answers = [run.attend(request, state[parent], token) for run, state in zip(runs, states, strict=True)]
        states = [state for _, state in answers]
        for run, state in zip(runs, states, strict=True):
            run.retain(state)
        np.testing.assert_allclose(answers[0][0], answers[1][0], rtol=0, atol=TOLERANCE)


@SMALL
def test_long_rows_and_many_sources_outgrow_the_first_pools(small, make_tensors, make_requests):
    tensors, requests = make_tensors(small), make_requests(small, (70, 2, 3, 5, 7, 1, 1, 4, 9, 66, 80, 12))
    device, native = Taken(DeviceModel(small, tensors, CPU)), NativeModel(small, tensors).open()
    request = np.arange(len(requests), dtype=np.int32)
    states, draw = [device.admit(requests), native.admit(requests)], np.random.default_rng(3)
    for _ in range(70):
        token = draw.integers(0, small.target_vocab_size, len(request)).astype(np.int32)
        (result, first), (truth, second) = (
            run.step(request, state, token) for run, state in zip((device, native), states, strict=True)
        )
        states = [first, second]
        device.retain(first)
        native.retain(second)
    np.testing.assert_allclose(result, truth, rtol=0, atol=TOLERANCE)


@SMALL
def test_cells_that_no_row_needs_are_free_again(small, make_tensors, walk):
    model, path = DeviceModel(small, make_tensors(small), CPU), walk(small)
    run = model.open()
    path.run(run)
    pools = run._pools
    run.retain(np.empty(0, np.int32))
    run.evict(np.arange(len(path.requests), dtype=np.int32))
    assert pools.rows.cells.has_free(len(pools.rows.cells) - 1)
    del run
    assert model.open()._pools is pools  # the next run takes them over


@SMALL
def test_hidden_vectors_last_until_the_next_step(small, make_tensors, walk):
    model, path = DeviceModel(small, make_tensors(small), CPU), walk(small)
    run = model.open()
    state = run.admit(path.requests)
    first, state = run.step(path.request[0], state[path.parent[0]], path.token[0])
    model.vectors.take(first[2:3])
    run.step(path.request[0], state, path.token[0])
    with pytest.raises(ValueError, match="earlier step"):
        model.vectors.take(first)


@SMALL
def test_mistakes_are_refused_and_change_nothing(small, make_tensors, walk):
    model, path = DeviceModel(small, make_tensors(small), CPU), walk(small)
    run = model.open()
    run.admit(path.requests)
    one = np.zeros(1, np.int32)
    for request, state, token, message in ((one, one, one, "state 0 is 0"), (one + 99, one + 1, one, "request is 99")):
        with pytest.raises(ValueError, match=message):
            run.step(request, state, token)
    with pytest.raises(ValueError, match="admitted already"):
        run.admit(path.requests)
    path = walk(small)
    run.evict(np.arange(len(path.requests), dtype=np.int32))
    path.run(run)


@SMALL
def test_half_precision_is_near(small, make_tensors, walk):
    tensors, path = make_tensors(small), walk(small)
    truth = path.run(NativeModel(small, tensors).open())
    for dtype, tolerance in (("float16", 0.05), ("bfloat16", 0.4)):
        result = path.run(Taken(DeviceModel(small, tensors, CPU, dtype)))
        near = np.abs(result - truth).max(axis=1) < tolerance
        assert near.mean() > 0.9 if getattr(small, "experts", 0) else near.all()  # another expert is another vector


@pytest.mark.parametrize("small", ["recurrent", "lstm"], indirect=True)
def test_other_families_are_refused_by_name(small, make_tensors):
    with pytest.raises(OptionError, match="models are not there on a GPU; leave the option out"):
        DeviceModel(small, make_tensors(small), CPU)
