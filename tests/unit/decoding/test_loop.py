"""The loop with toy models: the same answers in any company and order, forced scores, caches that are released."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from support.toys import BOS, EOS, ToyLayer, ToyModel, best, toy_requests

from sharpbeam.decoding.forced import force
from sharpbeam.decoding.loop import decode
from sharpbeam.options.decode import ScheduleOptions, SearchOptions
from sharpbeam.output_layers.interface import OutputLayerRun
from sharpbeam.scheduling.batches import FixedBatches
from sharpbeam.scheduling.plan import Plan
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Floats, Hypothesis, Ids, Request, TopK


class ListLayer(ToyLayer):
    """Of each request only the words that are in its source, and eos; keeps its decoding runs."""

    def open(self) -> ListRun:
        self.run = ListRun(self)
        return self.run


class ListRun(OutputLayerRun):
    def __init__(self, output_layer: ListLayer) -> None:
        self.output_layer = output_layer
        self.lists: dict[int, np.ndarray] = {}
        self.most = 0

    def admit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            assert request.index not in self.lists
            self.lists[request.index] = np.unique(request.source % self.output_layer.vocab_size)
        self.most = max(self.most, len(self.lists))

    def all(self, hidden: Floats, request: Ids) -> Floats:
        banned = np.full((len(hidden), self.output_layer.vocab_size), -np.inf, np.float32)
        for row, index in enumerate(request.tolist()):
            banned[row, self.lists[index]] = 0
        return self.output_layer.all(hidden) + banned

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        return best(self.all(hidden, request), k)

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        return self.all(hidden, request)[np.arange(len(token)), token]

    def evict(self, request: Ids) -> None:
        for index in request.tolist():
            del self.lists[index]


def run(
    model: ToyModel,
    requests: list[Request],
    options: SearchOptions,
    batch_tokens: int,
    layer: type[ToyLayer] = ToyLayer,
):
    output_layer = layer(*model.output())
    search = BeamSearch(options, BOS, EOS, output_layer.vocab_size)
    return dict(decode(model.open(), output_layer, search, FixedBatches(RequestQueue(requests, batch_tokens))))


@pytest.mark.parametrize("beam_size", [1, 5])
def test_one_by_one_is_batch_in_any_order(beam_size: int) -> None:
    options = SearchOptions(beam_size=beam_size, num_hypotheses=beam_size, max_length=15)
    for seed in range(5):
        model, requests = ToyModel(seed, eos_bias=2.0), toy_requests(20, seed)
        alone: dict[int, list[Hypothesis]] = {}
        for request in requests:
            alone |= run(model, [request], options, batch_tokens=1)
        assert len({h[0].tokens for h in alone.values()}) > 8  # the answers depend on the input
        for batch_tokens in (1, 20, 10_000):
            shuffled = random.Random(seed).sample(requests, len(requests))
            together = run(model, shuffled, options, batch_tokens)
            assert {i: repr(together[i]) for i in alone} == {i: repr(alone[i]) for i in alone}  # nan is not nan
            assert together.keys() == alone.keys()


@pytest.mark.parametrize("schedule", ["batches", "stream", "stream-shortest"])
def test_a_layer_may_answer_by_request(schedule: str) -> None:
    model, requests = ToyModel(3, eos_bias=0.0), toy_requests(15, 3)
    options, plans = SearchOptions(beam_size=3, max_length=9), ScheduleOptions(schedule=schedule, max_rows=12)
    alone: dict[int, list[Hypothesis]] = {}
    for request in requests:
        alone |= run(model, [request], options, 1, ListLayer)
        (result,) = alone[request.index]
        assert set(result.tokens) <= set((request.source % 20).tolist())
    output_layer = ListLayer(*model.output())
    search = BeamSearch(options, BOS, EOS, output_layer.vocab_size)
    together = dict(decode(model.open(), output_layer, search, Plan(requests, plans, 3, 1).schedule()))
    assert together == alone
    assert output_layer.run.lists == {} and output_layer.run.most > 2
    targets = {i: np.array([*h[0].tokens, EOS], np.int32) for i, h in alone.items()}
    for index, log_probs in force(model.open(), output_layer, targets, BOS, RequestQueue(requests, 30)):
        pairs = zip(log_probs.tolist(), alone[index][0].token_log_probs, strict=False)  # one may lack its end
        assert all(forced == searched for forced, searched in pairs)
    assert output_layer.run.lists == {}


def test_every_cache_is_given_back() -> None:
    model, requests = ToyModel(1), toy_requests(12, 1)
    result = run(model, requests, SearchOptions(max_length=10), batch_tokens=30)
    assert result.keys() == set(range(12))
    (decoding,) = model.opened
    assert decoding.sources == {} and decoding.states == {}
    queue, batches = RequestQueue(requests, 30), list[int]()
    while batch := queue.take_batch():
        batches.append(len(batch))
    assert len(batches) > 2
    assert decoding.most_sources == max(batches)


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, -0.5])
def test_search_score_is_forced_score(length_penalty: float) -> None:
    options = SearchOptions(beam_size=4, num_hypotheses=4, length_penalty=length_penalty, max_length=8)
    ends = set()
    for seed in range(4):
        model, requests = ToyModel(seed, eos_bias=3.0), toy_requests(6, seed)
        output_layer = ToyLayer(*model.output())
        result = run(model, requests, options, batch_tokens=1000)
        for rank in range(4):  # the hypotheses of one rank of all requests make one batch of targets
            best = {index: hypotheses[rank] for index, hypotheses in result.items()}
            targets = {
                index: np.array([*h.tokens, *[EOS] * (len(h.token_log_probs) - len(h.tokens))], np.int32)
                for index, h in best.items()
            }
            ends |= {target[-1] == EOS for target in targets.values()}
            queue = RequestQueue(requests, 20)
            for index, log_probs in force(model.open(), output_layer, targets, BOS, queue):
                h = best[index]
                assert log_probs.tolist() == list(h.token_log_probs)
                assert sum(log_probs.tolist()) / len(log_probs) ** length_penalty == pytest.approx(h.score, rel=1e-12)
    assert ends == {True, False}  # ended by eos, and by max_length


def test_forced_decoding_gives_its_caches_back_and_stops_when_called_off() -> None:
    model, requests = ToyModel(1), toy_requests(5, 1)
    output_layer = ToyLayer(*model.output())
    targets = {r.index: np.array([3, 4, EOS][r.index % 3 :], np.int32) for r in requests}
    queue = RequestQueue(requests, 10)
    scores = dict(force(model.open(), output_layer, targets, BOS, queue))
    assert {index: len(s) for index, s in scores.items()} == {i: 3 - i % 3 for i in range(5)}
    assert model.opened[0].sources == {} and model.opened[0].states == {}
    queue = RequestQueue(requests, 10)
    running = force(model.open(), output_layer, targets, BOS, queue)
    first = next(running)
    queue.close()
    assert 1 <= len({first[0]} | {index for index, _ in running}) < 5
