"""The native search against its reference over random models and schedules; and it refuses misuse."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from fuzz.search_cases import BOS, EOS, FOOTPRINT, VOCAB, TableModel, random_schedule, random_search
from reference.beam import reference_search
from support.command import TIMEOUT, environment
from support.toys import step
from unit.search.test_beam import assert_equal

from sharpbeam import _core
from sharpbeam.decoding.loop import decode
from sharpbeam.errors import ModelError
from sharpbeam.options.decode import SamplingOptions, SearchOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Hypothesis, Prefix, Request, TopK


def run(model: TableModel, requests: list[Request], options: SearchOptions, seed: int) -> dict[int, list[Hypothesis]]:
    search = BeamSearch(options, BOS, EOS, VOCAB)
    plan = Plan(requests, random_schedule(random.Random(seed)), options.most_rows, 1, FOOTPRINT)
    return dict(decode(model, model, search, plan.schedule()))


def asked(draw: random.Random, prefixes: bool) -> list[Request]:
    requests = []
    for index in range(12):
        source = np.array([draw.randrange(3, 64) for _ in range(draw.randrange(1, 9))], np.int32)
        size = draw.randrange(3) if prefixes else 0
        forced = Prefix(np.full(size, 5, np.int32), np.zeros(size, np.float32)) if size else None
        requests.append(Request(index, source, forced))
    return requests


@pytest.mark.parametrize("prefixes", [False, True])
def test_streams_answer_as_the_reference(prefixes: bool) -> None:
    for seed in range(60):
        draw = random.Random(seed)
        model = TableModel(seed, draw.choice([1, 4, 1000]), draw.choice([-1.0, 1.0, 3.0]), draw.choice([0.0, 0.2, 0.6]))
        options = random_search(draw)
        requests = asked(draw, prefixes)
        result = run(model, requests, options, seed)
        for request in requests[:4]:
            prefix = tuple(request.prefix.token.tolist()) if request.prefix else ()
            expected = reference_search(model.next_log_probs(request), options, EOS, prefix)
            assert_equal(result[request.index], expected, options)


def test_nodes_are_used_again() -> None:
    """Far more tokens than the first nodes: hypotheses of requests in flight keep theirs."""
    draw, model = random.Random(0), TableModel(3, 1000, -1.0, 0.0)
    requests = [Request(i, np.array([draw.randrange(3, 64)], np.int32)) for i in range(150)]
    options = SearchOptions(return_scores=True, beam_size=5, num_hypotheses=5, max_length=40)
    alone = {request.index: run(model, [request], options, 0)[request.index] for request in requests}
    for seed in range(3):
        assert run(model, requests, options, seed) == alone


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_log_probability_is_refused(value: float) -> None:
    search = BeamSearch(SearchOptions(return_scores=True, beam_size=2), BOS, EOS, VOCAB)
    rows = search.begin([Request(7, np.array([3], np.int32))], np.zeros(1, np.int32))
    log_prob = np.array([[-0.1, -0.5, -1.0, value]], np.float32)
    with pytest.raises(ModelError, match=r"request 7: after 0 tokens .* NaN or \+inf"):
        step(search, rows, TopK(log_prob, np.array([[4, 5, 6, 7]], np.int32)))


def test_a_proof_needs_log_probabilities() -> None:
    search = BeamSearch(SearchOptions(return_scores=True, beam_size=2, early_stopping="proven"), BOS, EOS, VOCAB)
    rows = search.begin([Request(0, np.array([3], np.int32))], np.zeros(1, np.int32))
    with pytest.raises(ModelError, match="proves nothing"):
        step(search, rows, TopK(np.array([[0.5, -1, -1, -1]], np.float32), np.array([[4, 5, 6, 7]], np.int32)))


def test_misuse_is_named_and_changes_nothing() -> None:
    search = BeamSearch(SearchOptions(return_scores=True, beam_size=2, max_length=9), BOS, EOS, VOCAB)
    rows = search.begin([Request(i, np.array([3], np.int32)) for i in (0, 1)], np.zeros(2, np.int32))
    top = TopK(
        np.tile(np.array([-0.1, -0.5, -1, -2], np.float32), (3, 1)), np.tile(np.arange(4, 8, dtype=np.int32), (3, 1))
    )
    apart = rows.select(np.array([0, 1, 0]))
    with pytest.raises(ValueError, match="the rows of request 0 are not side by side"):
        step(search, apart, top)
    two = TopK(top.log_prob[:2], top.token[:2])
    for name, value, message in (
        ("request", 5, "request 5 is not in flight"),
        ("length", 9, "length is 9; it must be from 0 to below max_length"),
        ("node", 3, "node 3 is not one of its row's request"),
    ):
        broken = rows.select(np.array([0, 1]))
        getattr(broken, name)[1] = value
        with pytest.raises(ValueError, match=message):
            step(search, broken, two)
    for name, change, message in (
        ("score", lambda score: score[:1], r"score has the shape \[1\]; it must be \[2\]"),
        ("score", lambda score: score.astype(np.float32), "score has another dtype than float64"),
        ("node", lambda node: node.repeat(2)[::2], "node is not C-contiguous"),
    ):
        with pytest.raises(ValueError, match=message):
            step(search, replace(rows, **{name: change(getattr(rows, name))}), two)
    for broken, message in (
        (TopK(two.log_prob[:, :1].copy(), two.token), r"log_prob has the shape \[2, 1\]; it must be \[2, 4\]"),
        (TopK(two.log_prob, two.token.astype(np.int64)), "token has another dtype than int32"),
    ):
        with pytest.raises(ValueError, match=message):
            step(search, rows, broken)
    with pytest.raises(ValueError, match="request 1 is in flight already"):
        search.begin([Request(1, np.array([3], np.int32))], np.zeros(1, np.int32))
    assert len(step(search, rows, two).rows) == 4
    with pytest.raises(ValueError, match="kind is 'best'; it must be beam, sampling or expansion"):
        _core.Search(
            "best", vars(SearchOptions(return_scores=True)) | vars(SamplingOptions()) | {"eos_id": 2, "vocab_size": 9}
        )
    search = _core.Search(
        "beam", vars(SearchOptions(return_scores=True)) | vars(SamplingOptions()) | {"eos_id": 2, "vocab_size": 9}
    )
    with pytest.raises(ValueError, match="request is -1; it must be 0 or more"):
        search.begin(-1, np.empty(0, np.int32), np.empty(0, np.float32))


RACE = """
import sys, threading
import numpy as np
from sharpbeam.options.decode import SearchOptions
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Request, TopK
search = BeamSearch(SearchOptions(return_scores=True, beam_size=64, max_length=10_000), 1, 2, 500)
rows = search.begin([Request(0, np.array([3], np.int32))], np.zeros(1, np.int32))
draw = np.random.default_rng(1)
log_prob = -np.sort(draw.uniform(0.1, 9, (64, 128)).astype(np.float32))
token = np.tile(np.arange(3, 131, dtype=np.int32), (64, 1))
class Forward:
    native = None
    def step(self, request, state, token):
        return np.zeros((len(token), 1), np.float32), np.arange(len(token), dtype=np.int32)
    def topk(self, hidden, k, request):
        return TopK(log_prob[: len(hidden)], token[: len(hidden)])
    reason, log_prob = "it is a table", None
sys.setswitchinterval(1e-6)
done = threading.Event()
def enter():
    index = 1
    while not done.is_set():
        search.begin([Request(index, np.array([3], np.int32))], np.zeros(1, np.int32))
        index += 1
thread = threading.Thread(target=enter)
thread.start()
for _ in range(1000):
    rows = search.step(rows, Forward()).rows
done.set()
thread.join()
"""


def test_two_threads_may_begin_and_step() -> None:
    """A thread that waits for the other's lock with the GIL, which the other needs, would wait for ever."""
    subprocess.run([sys.executable, "-c", RACE], env=environment(), timeout=TIMEOUT, check=True)
