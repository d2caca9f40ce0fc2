"""The native bookkeeping of beam search says what the Python one says, to the last bit; and it refuses misuse."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from fuzz.search_cases import BOS, EOS, FOOTPRINT, VOCAB, TableModel, random_schedule, random_search
from support.command import TIMEOUT, environment

from sharpbeam import _core
from sharpbeam.decoding.loop import decode
from sharpbeam.errors import ModelError
from sharpbeam.options.decode import SearchOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.native_beam import NativeBeamSearch
from sharpbeam.search.work import Work
from sharpbeam.types import Hypothesis, Prefix, Request, TopK

Found = tuple[dict[int, list[Hypothesis]], Work]


def run(kind: type[BeamSearch], model: TableModel, requests: list[Request], options: SearchOptions, seed: int) -> Found:
    search = kind(options, BOS, EOS, VOCAB)
    plan = Plan(requests, random_schedule(random.Random(seed)), options.most_rows, 1, FOOTPRINT)
    return dict(decode(model, model, search, plan.schedule())), search.work


def asked(draw: random.Random, prefixes: bool) -> list[Request]:
    requests = []
    for index in range(12):
        source = np.array([draw.randrange(3, 64) for _ in range(draw.randrange(1, 9))], np.int32)
        size = draw.randrange(3) if prefixes else 0
        forced = Prefix(np.full(size, 5, np.int32), np.zeros(size, np.float32)) if size else None
        requests.append(Request(index, source, forced))
    return requests


@pytest.mark.parametrize("prefixes", [False, True])
def test_both_say_the_same_and_count_the_same_work(prefixes: bool) -> None:
    for seed in range(150):
        draw = random.Random(seed)
        model = TableModel(seed, draw.choice([1, 4, 1000]), draw.choice([-1.0, 1.0, 3.0]), draw.choice([0.0, 0.2, 0.6]))
        options = random_search(draw)
        requests = asked(draw, prefixes)
        compiled = run(NativeBeamSearch, model, requests, options, seed)
        assert compiled == run(BeamSearch, model, requests, options, seed), (seed, options)


def test_nodes_are_given_away_again() -> None:
    """Far more tokens than the first room for nodes: hypotheses of requests in flight keep theirs."""
    draw, model = random.Random(0), TableModel(3, 1000, -1.0, 0.0)
    requests = [Request(i, np.array([draw.randrange(3, 64)], np.int32)) for i in range(150)]
    options = SearchOptions(beam_size=5, num_hypotheses=5, max_length=40)
    for seed in range(3):
        assert run(NativeBeamSearch, model, requests, options, seed) == run(BeamSearch, model, requests, options, seed)


def test_nothing_is_kept_of_requests_that_are_done() -> None:
    model, options = TableModel(3, 1000, 1.0, 0.0), SearchOptions(beam_size=3, max_length=20)
    requests = asked(random.Random(1), prefixes=True)
    search = NativeBeamSearch(options, BOS, EOS, VOCAB)
    plan = Plan(requests, random_schedule(random.Random(1)), options.most_rows, 1, FOOTPRINT)
    assert len(dict(decode(model, model, search, plan.schedule()))) == len(requests)
    assert not search._finished and not search._rules._prefixes and "_selector" not in vars(search)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_log_probability_is_refused(value: float) -> None:
    search = NativeBeamSearch(SearchOptions(beam_size=2), BOS, EOS, VOCAB)
    rows = search.begin([Request(7, np.array([3], np.int32))], np.zeros(1, np.int32))
    log_prob = np.array([[-0.1, -0.5, -1.0, value]], np.float32)
    with pytest.raises(ModelError, match=r"request 7: after 0 tokens .* NaN or \+inf"):
        search.advance(rows, TopK(log_prob, np.array([[4, 5, 6, 7]], np.int32)))


def test_a_proof_needs_log_probabilities() -> None:
    search = NativeBeamSearch(SearchOptions(beam_size=2, early_stopping="proven"), BOS, EOS, VOCAB)
    rows = search.begin([Request(0, np.array([3], np.int32))], np.zeros(1, np.int32))
    with pytest.raises(ModelError, match="proves nothing"):
        search.advance(rows, TopK(np.array([[0.5, -1, -1, -1]], np.float32), np.array([[4, 5, 6, 7]], np.int32)))


def test_misuse_is_named_and_changes_nothing() -> None:
    search = NativeBeamSearch(SearchOptions(beam_size=2, max_length=9), BOS, EOS, VOCAB)
    rows = search.begin([Request(i, np.array([3], np.int32)) for i in (0, 1)], np.zeros(2, np.int32))
    top = TopK(
        np.tile(np.array([-0.1, -0.5, -1, -2], np.float32), (3, 1)), np.tile(np.arange(4, 8, dtype=np.int32), (3, 1))
    )
    apart = rows.select(np.array([0, 1, 0]))
    with pytest.raises(ValueError, match="the rows of request 0 are not side by side"):
        search.advance(apart, top)
    two = TopK(top.log_prob[:2], top.token[:2])
    for name, value, said in (
        ("request", 5, "request 5 is not in flight"),
        ("length", 9, "length is 9; it must be from 0 to below max_length"),
        ("node", 3, "node 3 is not one of its row's request"),
    ):
        broken = rows.select(np.array([0, 1]))
        getattr(broken, name)[1] = value
        with pytest.raises(ValueError, match=said):
            search.advance(broken, two)
    for name, change, said in (
        ("score", lambda score: score[:1], r"score has the shape \[1\]; it must be \[2\]"),
        ("score", lambda score: score.astype(np.float32), "score has another dtype than float64"),
        ("node", lambda node: node.repeat(2)[::2], "node is not C-contiguous"),
    ):
        with pytest.raises(ValueError, match=said):
            search.advance(replace(rows, **{name: change(getattr(rows, name))}), two)
    narrow = TopK(two.log_prob[:, :1].copy(), two.token)
    with pytest.raises(ValueError, match=r"value has the shape \[2, 1\]"):
        search.advance(rows, narrow)
    assert len(search.advance(rows, two).rows) == 4
    with pytest.raises(ValueError, match="rule is 'maybe'"):
        _core.Beam(1, 1, 2, 1, 0.0, 0.0, False, 0, 1, "maybe", 1, 1, 1, 1, 0.0, 0, np.ones(2), np.ones(1))


RACE = """
import sys, threading
import numpy as np
from sharpbeam.options.decode import SearchOptions
from sharpbeam.search.native_beam import NativeBeamSearch
from sharpbeam.types import Request, TopK
search = NativeBeamSearch(SearchOptions(beam_size=64, max_length=10_000), 1, 2, 500)
rows = search.begin([Request(0, np.array([3], np.int32))], np.zeros(1, np.int32))
draw = np.random.default_rng(1)
log_prob = -np.sort(draw.uniform(0.1, 9, (64, 128)).astype(np.float32))
token = np.tile(np.arange(3, 131, dtype=np.int32), (64, 1))
sys.setswitchinterval(1e-6)
done = threading.Event()
def enter():
    index = 1
    while not done.is_set():
        search._core.begin(np.array([index], np.int32))
        index += 1
thread = threading.Thread(target=enter)
thread.start()
for _ in range(1000):
    rows = search.advance(rows, TopK(log_prob[: len(rows)], token[: len(rows)])).rows
done.set()
thread.join()
"""


def test_two_threads_may_begin_and_advance() -> None:
    """A thread that waits for the other's lock with the GIL, which the other needs, would wait for ever."""
    subprocess.run([sys.executable, "-c", RACE], env=environment(), timeout=TIMEOUT, check=True)


def test_only_rules_against_repetition_and_cubes_are_left_to_python() -> None:
    assert NativeBeamSearch.serves(SearchOptions(beam_size=3, min_length=2, early_stopping="proven"))
    assert not NativeBeamSearch.serves(SearchOptions(repetition_penalty=1.2))
    assert not NativeBeamSearch.serves(SearchOptions(no_repeat_ngram_size=2))
    assert not NativeBeamSearch.serves(SearchOptions(cube_pruning="exact"))
