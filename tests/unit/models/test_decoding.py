"""A decoding run: a row's answer is its own, in bytes, whatever stands around it; mistakes change nothing."""

from __future__ import annotations

import dataclasses
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sharpbeam import _core
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.native import NativeModel
from sharpbeam.models.registry import architecture_of
from sharpbeam.options.machine import COMPUTE_TYPES, MachineOptions
from sharpbeam.types import Request


def ids(*values):
    return np.array(values, np.int32)


def same(a, b, backend):
    """Native rows are equal in bytes; PyTorch pads and multiplies by blocks, so its rows are only close."""
    return a.tobytes() == b.tobytes() if backend is NativeModel else np.allclose(a, b, rtol=0, atol=1e-5)


@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
def test_every_table_gives_the_same_bytes(config, compute_type, make_tensors, walk):
    tensors, path = make_tensors(config), walk(config)
    models = [NativeModel(config, tensors, isa, compute_type) for isa in _core.table_names()]
    assert len({path.run(model.open()).tobytes() for model in models}) == 1


@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
def test_threads_that_share_a_step_change_no_byte(small, isa, compute_type, make_tensors, walk):
    model, path = NativeModel(small, make_tensors(small), isa, compute_type), walk(small)
    alone = path.run(model.open()).tobytes()
    for threads in (2, 3):
        with _core.Team(threads, grain_size=1):  # every product is shared, however small
            assert {path.run(model.open()).tobytes() for _ in range(3)} == {alone}


SHORTCUTS = {
    "none": {"merge_states": False},
    "precomputed_embeddings": {"precomputed_embeddings": 20},
    "precomputed_attention": {"precomputed_attention": True},
    "all": {"precomputed_embeddings": 1000, "precomputed_attention": True},
}


@pytest.mark.parametrize("name", SHORTCUTS)
def test_shortcuts_change_last_bits_only(config, name, make_tensors, walk):
    """TOLERANCE of test_twin.py; int8 rounds other numbers where products of the source are kept."""
    tensors, path = make_tensors(config), walk(config)
    plain, short = (
        path.run(NativeModel(config, tensors, **shortcuts).open())
        for shortcuts in (MachineOptions().shortcuts(), SHORTCUTS[name])
    )
    assert np.abs(plain - short).max() < 1e-5
    if name in ("none", "precomputed_embeddings"):  # the same sums in the same order
        assert plain.tobytes() == short.tobytes()
        for compute_type in ("int16", "int8"):
            plain, short = (
                path.run(NativeModel(config, tensors, "auto", compute_type, **shortcuts).open())
                for shortcuts in (MachineOptions().shortcuts(), SHORTCUTS[name])
            )
            assert plain.tobytes() == short.tobytes()
    else:
        broken = tensors | {k: v * np.float32(1.03) for k, v in tensors.items() if k.startswith("decoder")}
        other = path.run(NativeModel(config, broken, **SHORTCUTS[name]).open())
        assert np.abs(plain - other).max() > 5e-5


@pytest.mark.parametrize("name", ["all"])
def test_shortcuts_give_the_same_bytes_on_every_table_and_row_by_row(config, name, make_tensors, walk):
    tensors, path = make_tensors(config), walk(config)
    models = [NativeModel(config, tensors, isa, **SHORTCUTS[name]) for isa in _core.table_names()]
    assert len({path.run(model.open()).tobytes() for model in models}) == 1


@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
def test_a_row_alone_equals_itself_in_a_batch(config, compute_type, make_tensors, make_requests, walk):
    model = NativeModel(config, make_tensors(config), compute_type=compute_type)
    path = walk(config, lengths=(5, 1, 30, 3, 3, 17), beam=4, steps=3)
    together = np.split(path.run(model.open()), 3)
    for row in range(len(path.token[-1])):
        rows = [row]
        for parent in reversed(path.parent[1:]):
            rows.append(int(parent[rows[-1]]))
        request = path.requests[path.request[-1][row]]
        run = model.open()
        state = run.admit([request])
        for step, r in enumerate(reversed(rows)):
            hidden, state = run.step(ids(request.index), state, path.token[step][r : r + 1])
            assert hidden[0].tobytes() == together[step][r].tobytes()


class Forest:
    """Live rows of a run with the prefix that each stands for, checked against fresh runs of one row."""

    def __init__(self, model, backend):
        self.model, self.backend, self.run = model, backend, model.open()
        self.sources, self.rows, self.fresh = {}, [], {}  # rows: (request, handle, tokens)

    def admit(self, requests):
        handles = self.run.admit(requests)
        for request, handle in zip(requests, handles, strict=True):
            self.sources[request.index] = request
            self.rows.append((request.index, int(handle), ()))

    def step(self, chosen, tokens):
        rows = [self.rows[i] for i in chosen]
        hidden, handles = self.run.step(ids(*(r[0] for r in rows)), ids(*(r[1] for r in rows)), ids(*tokens))
        for row, vector, handle, token in zip(rows, hidden, handles, tokens, strict=True):
            prefix = (*row[2], int(token))
            assert same(vector, self.alone(row[0], prefix), self.backend)
            self.rows.append((row[0], int(handle), prefix))

    def alone(self, request, prefix):
        key = (request, prefix)
        if key not in self.fresh:
            run = self.model.open()
            state = run.admit([self.sources[request]])
            for token in prefix:
                hidden, state = run.step(ids(request), state, ids(token))
            self.fresh[key] = hidden[0]
        return self.fresh[key]

    def evict(self, requests):
        self.run.evict(ids(*requests))
        self.rows = [row for row in self.rows if row[0] not in requests]

    def retain(self, chosen):
        self.rows = [self.rows[i] for i in chosen]
        self.run.retain(ids(*(row[1] for row in self.rows)))


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_admit_step_retain_and_evict_equals_fresh_runs(seed, build, make_tensors, make_requests, small):
    draw = np.random.default_rng(seed)
    forest = Forest(build(small, make_tensors(small)), build)
    admitted = 0
    for _ in range(60):
        match draw.choice(["admit", "step", "step", "retain", "evict"]):
            case "admit":
                lengths = draw.integers(1, 9, draw.integers(0, 4)).tolist()
                forest.admit(make_requests(small, lengths, seed=int(draw.integers(1000)), first=admitted))
                admitted += len(lengths)
            case "step":
                shallow = [i for i, row in enumerate(forest.rows) if len(row[2]) < 5]
                chosen = draw.choice(shallow, draw.integers(0, 7)) if shallow else []
                forest.step(chosen, draw.integers(0, small.target_vocab_size, len(chosen)))
            case "retain":
                forest.retain(np.flatnonzero(draw.random(len(forest.rows)) < 0.7))
            case "evict":
                live = sorted({row[0] for row in forest.rows})
                gone = [index for index in live if draw.random() < 0.3]
                forest.evict(gone)
    assert len(forest.fresh) > 20  # or the draw was too dull to show anything


def test_an_evicted_index_may_come_back_with_another_source(build, make_tensors, make_requests, small):
    forest = Forest(build(small, make_tensors(small)), build)
    forest.admit(make_requests(small, (4,), seed=1))
    forest.step([0], [5])
    forest.evict([0])
    forest.fresh.clear()
    forest.admit(make_requests(small, (4,), seed=2))
    forest.step([0], [5])


def test_handles_are_used_again_so_that_a_long_run_needs_no_more_memory(build, make_tensors, make_requests, small):
    """Twenty pairs of requests, one after the other, of five steps each."""
    run = build(small, make_tensors(small)).open()
    highest = 0
    for first in range(0, 40, 2):
        state = run.admit(make_requests(small, (4, 2), first=first))
        run.retain(state)
        for token in range(5):
            _, state = run.step(ids(first, first + 1), state, ids(token, 3))
            run.retain(state)
            highest = max(highest, int(state.max()))
        run.evict(ids(first, first + 1))
    assert highest < 16


def test_two_runs_in_two_threads_share_a_model(make_tensors, walk, small):
    model, path = NativeModel(small, make_tensors(small)), walk(small, steps=30)
    truth = path.run(model.open()).tobytes()
    with ThreadPoolExecutor(4) as pool:
        assert {run.tobytes() for run in pool.map(lambda _: path.run(model.open()), range(12))} == {truth}


MISTAKES = {
    "unknown request": (lambda run, at: run.step(ids(9), at[:1], ids(1)), "request is 9"),
    "handle never given": (lambda run, at: run.step(ids(0), ids(77), ids(1)), "state 0 is 77"),
    "negative handle": (lambda run, at: run.step(ids(0, 1), ids(at[0], -1), ids(1, 1)), "state 1 is -1"),
    "token too high": (lambda run, at: run.step(ids(0), at[:1], ids(37)), "token 0 is 37.* between 0 and 36"),
    "token negative": (lambda run, at: run.step(ids(0), at[:1], ids(-1)), "token 0 is -1"),
    "fewer tokens than rows": (lambda run, at: run.step(ids(0, 1), at, ids(1)), "token"),
    "retain of a handle never given": (lambda run, at: run.retain(ids(at[0], 5)), "state 1 is 5"),
    "evict of a stranger": (lambda run, at: run.evict(ids(0, 4)), "request is 4"),
    "admitted twice": (lambda run, at: run.admit([Request(1, ids(2))]), "request 1 is admitted already"),
    "twice in one call": (
        lambda run, at: run.admit([Request(5, ids(2)), Request(5, ids(2))]),
        "request 5 is admitted",
    ),
    "empty source": (lambda run, at: run.admit([Request(5, ids(2)), Request(6, ids())]), "request 6 .* 0 tokens"),
    "source token too high": (
        lambda run, at: run.admit([Request(5, ids(2, 31))]),
        "31; it must be between 0 and 30",
    ),
    "source token negative": (lambda run, at: run.admit([Request(5, ids(-2))]), "source token 0 is -2"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_and_changes_nothing(mistake, build, make_tensors, make_requests, small):
    call, message = MISTAKES[mistake]
    run = build(small, make_tensors(small)).open()
    state = run.admit(make_requests(small, (4, 2)))
    before, _ = run.step(ids(0, 1), state, ids(3, 4))
    run.retain(state)
    with pytest.raises(ValueError, match=message):
        call(run, state)
    after, _ = run.step(ids(0, 1), state, ids(3, 4))
    assert before.tobytes() == after.tobytes()


def test_a_freed_handle_is_refused(build, make_tensors, make_requests, small):
    run = build(small, make_tensors(small)).open()
    state = run.admit(make_requests(small, (4, 2)))
    run.retain(state[1:])
    with pytest.raises(ValueError, match="retain has kept"):
        run.step(ids(0), state[:1], ids(1))


def test_no_rows_and_no_requests_are_no_mistake(build, make_tensors, small):
    run = build(small, make_tensors(small)).open()
    assert run.admit([]).shape == (0,)
    hidden, state = run.step(ids(), ids(), ids())
    assert hidden.shape == (0, small.hidden_dim) and state.shape == (0,)
    run.retain(ids())
    run.evict(ids())


@pytest.mark.parametrize("wrong", [np.array([0], np.int64), np.array([0.0]), np.zeros((1, 1), np.int32)])
def test_the_core_takes_int32_vectors_only(wrong, make_tensors, make_requests, small):
    run = NativeModel(small, make_tensors(small)).open()
    run.admit(make_requests(small, (4,)))
    with pytest.raises(ValueError, match="token"):
        run.step(ids(0), ids(0), wrong)


def test_tables_and_types_that_there_are_not_are_named(make_tensors, small):
    with pytest.raises(OptionError, match="sse9"):
        NativeModel(small, make_tensors(small), "sse9")
    with pytest.raises(OptionError, match='compute_type is "int9"; it must be one of float32, int16, int8'):
        NativeModel(small, make_tensors(small), "auto", "int9")


def test_tensors_that_do_not_fit_the_config_are_named(build, make_tensors, small):
    tensors = make_tensors(small)
    name = next(name for name in tensors if name.startswith("decoder."))
    with pytest.raises(ModelError, match=rf"'{re.escape(name)}' is missing"):
        build(small, {n: t for n, t in tensors.items() if n != name})
    with pytest.raises(ModelError, match="unknown tensor 'more'"):
        build(small, tensors | {"more": tensors["output_bias"]})
    with pytest.raises(ModelError, match=r"output_bias.* \(36,\)"):
        build(small, tensors | {"output_bias": tensors["output_bias"][1:]})


WRONG_FACTS = {
    "recurrent": {"decoder_dim": 0, "encoder_dim": -1, "fc_layers": 1 << 40, "top": "sum"},
    "lstm-attention": {"hidden_dim": 69, "layers": 0, "embedding_dim": -1, "target_vocab_size": 1 << 40},
    "transformer": {"hidden_dim": 71, "decoder_layers": 0, "encoder_ffn_dim": -1, "norm": "both"},
}


def test_the_core_checks_shapes_itself(make_tensors, small):
    facts, tensors = dataclasses.asdict(small), make_tensors(small)
    architecture, how = architecture_of(small), {"compute_type": "float32"} | MachineOptions().shortcuts()
    for name in tensors.keys() - {"output_weight", "output_bias"}:
        with pytest.raises(ValueError, match=name):
            architecture.core(facts, tensors | {name: tensors[name][:-1]}, "auto", how)
        with pytest.raises(ValueError, match=name):
            architecture.core(facts, {n: t for n, t in tensors.items() if n != name}, "auto", how)
    for name, value in WRONG_FACTS[architecture.name].items():
        with pytest.raises(ValueError, match=name):
            architecture.core(facts | {name: value}, tensors, "auto", how)


def test_bad_facts_of_an_lstm_are_refused():
    good = {"source_vocab_size": 31, "target_vocab_size": 37, "embedding_dim": 18, "hidden_dim": 70}
    LstmAttentionConfig(**good)
    for change, message in (
        ({"hidden_dim": 71}, "hidden_dim is 71; it must be even"),
        ({"layers": 0}, "layers is 0; it must be 1 or more"),
        ({"shared_embedding": True}, "shared_embedding needs one vocabulary"),
        ({"tied_output": True}, "tied_output needs hidden_dim = embedding_dim"),
        ({"eos_id": 31}, "eos_id is 31; it must be below 31, the size"),
    ):
        with pytest.raises(ModelError, match=message):
            LstmAttentionConfig(**good | change)
