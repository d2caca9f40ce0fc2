"""The language model's interface: a row stands alone, states live until they are left out, mistakes change nothing."""

from __future__ import annotations

import numpy as np
import pytest
from unit.language_models.conftest import ids, random_tensors, random_walk

from sharpbeam.decoding.loading import load_weights
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.models.native import NativeModel
from sharpbeam.storage.model_folder import read_config, read_tensors, save_model
from sharpbeam.types import Request

TINY = LstmLmConfig(vocab_size=9, embedding_dim=5, hidden_dim=6, layers=2)


def prompts(*lengths, first=0):
    draw = np.random.default_rng(11)
    return [Request(first + i, draw.integers(2, TINY.vocab_size, n).astype(np.int32)) for i, n in enumerate(lengths)]


def test_a_row_has_the_same_bytes_in_any_company(config):
    model, path = NativeModel(config, random_tensors(config)), random_walk(config)
    together = path.run(model.open())
    size, steps = len(path.request[0]), len(path.request)
    for row in range(size):  # the row's ancestors, alone
        chain = [row]
        for t in range(steps - 1, 0, -1):
            chain.append(int(path.parent[t][chain[-1]]))
        chain.reverse()
        owner = int(path.request[0][chain[0]])
        run = model.open()
        state = run.admit([path.requests[owner]])
        for t, at in enumerate(chain):
            hidden, state = run.step(ids(owner), state, path.token[t][at : at + 1])
            assert hidden.tobytes() == together[t * size + at].tobytes()


def test_a_prompt_may_be_cut_anywhere():
    model, text = NativeModel(TINY, random_tensors(TINY)), ids(2, 7, 4, 4, 8, 5)
    answers = set()
    for cut in range(1, len(text) + 1):
        run = model.open()
        state = run.admit([Request(0, text[:cut])])
        hidden, state = run.step(ids(0), state, ids(TINY.bos_id))
        for token in text[cut:]:
            hidden, state = run.step(ids(0), state, ids(token))
        answers.add(hidden.tobytes())
    assert len(answers) == 1


def test_bos_feeds_nothing(build):
    run = build(TINY, random_tensors(TINY)).open()
    state = run.admit(prompts(3))
    first, again = run.step(ids(0), state, ids(TINY.bos_id))
    second, _ = run.step(ids(0), again, ids(TINY.bos_id))
    third, _ = run.step(ids(0), again, ids(5))
    assert first.tobytes() == second.tobytes() != third.tobytes()


def test_states_that_were_read_stay_and_left_out_ones_go(build):
    run = build(TINY, random_tensors(TINY)).open()
    state = run.admit(prompts(3, 2))
    one, new = run.step(ids(0, 1), state, ids(4, 4))
    two, _ = run.step(ids(0, 1), state, ids(4, 4))
    np.testing.assert_array_equal(one, two)
    run.retain(new)
    with pytest.raises(ValueError, match=r"state 0 is \d+; it must be a handle"):
        run.step(ids(0, 1), state, ids(4, 4))


def test_mistakes_are_named_and_change_nothing(build):
    run = build(TINY, random_tensors(TINY)).open()
    state = run.admit(prompts(3))
    truth = run.step(ids(0), state, ids(5))[0]
    for call, message in (
        (lambda: run.admit(prompts(2)), "request 0 is admitted already"),
        (lambda: run.admit(prompts(2, first=4) + prompts(2, first=4)), "request 4 is admitted already"),
        (lambda: run.admit([Request(1, ids())]), "request 1 has a source of 0 tokens"),
        (lambda: run.admit([Request(1, ids(9))]), "source token 0 is 9; it must be between 0 and 8"),
        (lambda: run.step(ids(0), state, ids(-1)), "token 0 is -1; it must be between 0 and 8"),
        (lambda: run.step(ids(3), state, ids(5)), "request is 3; it must be one that was admitted"),
        (lambda: run.step(ids(0), ids(77), ids(5)), "state 0 is 77"),
        (lambda: run.evict(ids(3)), "request is 3"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    np.testing.assert_array_equal(run.step(ids(0), state, ids(5))[0], truth)
    run.evict(ids(0))
    with pytest.raises(ValueError, match="request is 0"):
        run.step(ids(0), state, ids(5))


def test_nothing_asked_is_nothing_answered(build):
    run = build(TINY, random_tensors(TINY)).open()
    assert run.admit([]).shape == (0,)
    hidden, state = run.step(ids(), ids(), ids())
    assert hidden.shape == (0, 6) and state.shape == (0,)


def test_save_then_load_gives_the_same_answer(config, build, tmp_path):
    tensors, path = random_tensors(config), random_walk(config)
    save_model(tmp_path / "model", config, tensors, {}, "")
    is_native, built = build is NativeModel, build(config, tensors)
    loaded = load_weights(tmp_path / "model") if is_native else build(config, read_tensors(tmp_path / "model", config))
    assert read_config(tmp_path / "model") == config
    assert path.run(loaded.open()).tobytes() == path.run(built.open()).tobytes()
    for got, expected in zip(loaded.output(), built.output(), strict=True):
        assert got.tobytes() == expected.tobytes()
    expected = tensors["embedding" if config.tied_output else "output_weight"]
    assert np.array_equal(loaded.output()[0], expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 3}, "'lstm.bias_hh_l2' is missing"),
        ({"layers": 10**9}, "the config asks for 1000000000 layers, but there are only 11 tensors"),
        ({"tied_output": True, "embedding_dim": 6}, "tensor 'embedding' has shape"),
        ({"hidden_dim": 7}, "has shape .*; the config asks for"),
    ],
)
def test_tensors_of_another_config_are_refused(change, message):
    other = LstmLmConfig(**{"vocab_size": 9, "embedding_dim": 5, "hidden_dim": 6, "layers": 2} | change)
    with pytest.raises(ModelError, match=message):
        NativeModel(other, random_tensors(TINY))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": 0}, "layers is 0; it must be 1 or more"),
        ({"tied_output": True}, "tied_output needs hidden_dim = embedding_dim, but they are 6 and 5"),
        ({"eos_id": 9}, "eos_id is 9; it must be below 9, the size"),
        ({"eos_id": 1}, "eos_id is 1; it must be another one than bos_id, 1"),
    ],
)
def test_a_config_that_cannot_be_is_refused(change, message):
    with pytest.raises(ModelError, match=message):
        LstmLmConfig(**{"vocab_size": 9, "embedding_dim": 5, "hidden_dim": 6} | change)


def test_an_unknown_table_is_refused():
    with pytest.raises(OptionError, match='isa is "sse"'):
        NativeModel(TINY, random_tensors(TINY), "sse")
