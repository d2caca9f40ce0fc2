"""The core called with what no model or option gives: a ValueError that names it, never a crash."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.toys import asked

from sharpbeam import _core
from sharpbeam.options.decode import SamplingOptions, SearchOptions
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.native import NativeSearch, SamplingSearch
from sharpbeam.types import Floats, Ids, Rows, TopK

NONE = np.empty(0, np.int32), np.empty(0, np.float32)
VOCAB = 9


def core(kind: str = "beam", **changed: Any) -> _core.Search:
    options = vars(SearchOptions(return_scores=True)) | vars(SamplingOptions())
    return _core.Search(kind, options | {"eos_id": 2, "vocab_size": VOCAB} | changed)


class Forward:
    """The same candidates for every row."""

    native, layer, whole, reason, log_prob = None, None, False, "it is a table", None

    def __init__(self, width: int = 1) -> None:
        self.width = width

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        return np.zeros((len(token), self.width), np.float32), np.arange(len(token), dtype=np.int32)

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        token = np.tile(np.arange(k, dtype=np.int32), (len(hidden), 1))
        return TopK(-1.0 - token.astype(np.float32), token)


def samples(count: int) -> SamplingSearch:
    options = SearchOptions(sampling=True, num_hypotheses=count, max_length=9)
    return SamplingSearch(options, SamplingOptions(), 1, 2, VOCAB)


def begun(search: NativeSearch) -> Rows:
    return search.begin(asked(0), np.zeros(1, np.int32))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"eos_id": VOCAB}, "eos_id is 9; it must be from 0 to 8"),
        ({"eos_id": -1}, "eos_id is -1; it must be from 0 to 8"),
        ({"vocab_size": 2**31 - 1}, "vocab_size is 2147483647; it must be from 1 to 16777216"),
        ({"beam_size": 10**9}, "beam_size is 1000000000; it must be between 1 and 10000"),
        ({"num_hypotheses": 10**9}, "num_hypotheses is 1000000000; it must be between 1 and 10000"),
        ({"max_length": 10**9}, "max_length is 1000000000; it must be between 1 and 100000"),
        ({"patience": 0.0}, "patience is 0.0+; it must be above 0 and at most 1000"),
        ({"patience": float("nan")}, "patience is nan; it must be above 0 and at most 1000"),
        ({"seed": -1}, "seed is -1; it must be a number of its range"),
        ({"beam_size": "five"}, "beam_size is 'five'; it must be a number of its range"),
    ],
)
@pytest.mark.parametrize("kind", ["beam", "sampling", "expansion"])
def test_options_that_cannot_be_are_named(kind: str, changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        core(kind, **changed)


def test_a_rounded_patience_still_waits_for_an_answer() -> None:
    search = BeamSearch(SearchOptions(beam_size=2, early_stopping="never", max_length=4), 1, 2, VOCAB)
    search._core = core(beam_size=2, patience=0.2, early_stopping="never", max_length=4)
    rows = begun(search)
    while len(rows):
        result = search.step(rows, Forward())
        rows = result.rows
    assert result.finished[0]


def test_a_sample_that_is_not_drawn_is_no_answer() -> None:
    search = samples(3)
    rows = begun(search)
    assert search.peek(0, int(rows.node[0])) == ([], [])
    rows = search.step(rows, Forward()).rows
    search.begin(asked(1), np.zeros(1, np.int32))
    finished, tokens = search.peek(1, -1)
    assert (finished, tokens) == ([], [])


def test_rows_of_samples_are_counted() -> None:
    search = samples(2)
    rows = begun(search)
    for wrong in (np.array([0, 1, 1]), np.array([0])):
        with pytest.raises(ValueError, match=r"request 0 has \d rows; it must have 2"):
            search.step(rows.select(wrong), Forward())
    assert len(search.step(rows, Forward()).rows)


@pytest.mark.parametrize("length", [1, 5])
def test_a_length_is_that_of_its_node(length: int) -> None:
    search = BeamSearch(SearchOptions(beam_size=1, return_scores=True), 1, 2, VOCAB)
    rows = begun(search)
    rows.length[:] = length
    with pytest.raises(ValueError, match=f"length is {length}; it must be that of node -1, 0"):
        search.step(rows, Forward())


@pytest.mark.parametrize("pruning", ["none", "exact", "approximate"])
def test_hidden_vectors_have_a_width(pruning: Any) -> None:
    search = BeamSearch(SearchOptions(beam_size=2, cube_pruning=pruning), 1, 2, VOCAB)
    with pytest.raises(ValueError, match="the hidden vectors are 0 wide"):
        search.step(begun(search), Forward(0))


class Scanned(Forward):
    """Any hidden vectors, with a scan of so many tokens as its layer."""

    def __init__(self, width: int, vocab: int) -> None:
        super().__init__(width)
        draw = np.random.default_rng(width)
        self.layer = _core.ScanLayer(
            draw.standard_normal((vocab, width), np.float32), np.zeros(vocab, np.float32)
        ).open()
        self.hidden = draw.standard_normal((1, width), np.float32)

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        return self.hidden.repeat(len(token), 0), np.arange(len(token), dtype=np.int32)


def test_the_width_of_hidden_vectors_changes_between_requests_alone() -> None:
    """Scores of the first request rest on memory that is as wide as its vectors."""
    search = BeamSearch(SearchOptions(beam_size=4, max_length=9), 1, 2, 4000)
    rows = search.step(begun(search), Scanned(4, 4000)).rows
    with pytest.raises(ValueError, match=r"the hidden vectors are 8192 wide; those before, .*, were 4"):
        search.step(rows, Scanned(8192, 4000))
    search.cancel(0)
    rows = search.begin(asked(1), np.zeros(1, np.int32))
    for _ in range(3):
        rows = search.step(rows, Scanned(8192, 4000)).rows
    assert len(rows) == 4


@pytest.mark.parametrize("token", [-1, VOCAB, -2_000_000_000])
def test_tokens_of_a_layer_of_python_are_of_the_vocabulary(token: int) -> None:
    forward = Forward()
    forward.topk = lambda hidden, k, request: TopK(  # type: ignore[method-assign]
        np.zeros((1, k), np.float32), np.full((1, k), token, np.int32)
    )
    search = BeamSearch(SearchOptions(beam_size=2), 1, 2, VOCAB)
    with pytest.raises(ValueError, match=f"topk has the token {token}; tokens are 0 to 8"):
        search.step(begun(search), forward)


def test_layers_by_language_are_layers_and_stay() -> None:
    with pytest.raises((RuntimeError, TypeError)):
        _core.LayerByLanguage("target", ["aa"], (None,))  # type: ignore[arg-type]
    layer = _core.ExactLayer(np.zeros((VOCAB, 4), np.float32), np.zeros(VOCAB, np.float32))
    before = sys.getrefcount(layer)
    both = _core.LayerByLanguage("target", ["aa"], (layer,))
    assert sys.getrefcount(layer) > before and both.vocab_size == VOCAB


def test_k_is_checked_before_memory_is_taken_for_it() -> None:
    layers = [_core.ExactLayer(np.zeros((VOCAB, 4), np.float32), np.zeros(VOCAB, np.float32)) for _ in "ab"]
    run = _core.LayerByLanguage("target", ["a", "b"], tuple(layers)).open()
    for request, language in enumerate("ab"):
        run.admit(request, np.zeros(1, np.int32), "", language)
    for k in (-1, 2**40):
        with pytest.raises(ValueError, match=f"k is {k}; it must be from 1 to the vocabulary size"):
            run.topk(np.zeros((2, 4), np.float32), k, np.arange(2, dtype=np.int32))


@pytest.mark.parametrize(
    "call",
    [
        _core.log_sum_exp,
        _core.tanh,
        _core.softmax,
        lambda x: _core.add(x, x),
        lambda x: _core.mul(x, x),
        lambda x: _core.top_k(x, 1),
        lambda x: _core.dot_scores(x, x),
        lambda x: _core.gru(x, x, x),
        lambda x: _core.add_norm(x, x, x, x, 1e-5),
        _core.Linear,
    ],
)
def test_an_array_without_axes_is_refused(call: Callable[[Floats], object]) -> None:
    with pytest.raises(ValueError, match=r"has the shape \[\]"):
        call(np.float32(1.0).reshape(()))


@pytest.mark.parametrize("compute_type", ["float32", "int16", "int8"])
@pytest.mark.parametrize("shape", [(3, 0), (0, 3)])
def test_a_linear_layer_has_rows_and_columns(compute_type: str, shape: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="both sizes must be at least 1"):
        _core.Linear(np.zeros(shape, np.float32), compute_type=compute_type)


def test_a_team_lives_as_long_as_it_is_entered() -> None:
    program = """
import numpy as np
from sharpbeam import _core
team = _core.Team(3)
team.__enter__()
del team
weight = np.ones((4000, 256), np.float32)
_core.Linear(weight).apply(np.ones((64, 256), np.float32))
"""
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
    team = _core.Team(2)
    with pytest.raises(ValueError, match="the team was not entered"):
        team.__exit__(None, None, None)
