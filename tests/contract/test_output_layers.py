"""The contract of output layers, held to by every layer that is registered.

A layer that is registered from outside of the package passes the same functions: they take its name.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.made_layers import VARIANTS, MadeArtifacts, build_layer, made_requests, normal, opened, whole

from sharpbeam import _core
from sharpbeam._core import table_names
from sharpbeam.fit.layer import MODULES
from sharpbeam.output_layers.by_language import ByLanguage
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun
from sharpbeam.output_layers.native import NativeLayer
from sharpbeam.output_layers.registry import output_layers
from sharpbeam.output_layers.suppressed import without
from sharpbeam.types import Floats, Ids, Languages, Request, TopK

LAYERS = (*output_layers(), *VARIANTS)
VOCAB, WIDTH = 130, 21  # neither is a multiple of a panel or of a vector register
REQUESTS = made_requests(4)
# The error of a normalizer that is not exact, on noise, where no few tokens have most of the mass: at most three times
# what was measured.
NORMALIZER = {"scan": 2.5e-3, "preview": 1e-3, "preview proven": 2.5e-3, "screen": 1e-3, "screen alone": 5e-3}
PROVEN = ("exact", "scan", "preview proven")  # of all tokens, the exact layer's best
every_layer = pytest.mark.parametrize("name", LAYERS)
every_layer_by_row = pytest.mark.parametrize("name", [name for name in LAYERS if name != "screen union"])


def made(name: str, isa: str = "auto", **kind: bool) -> OutputLayer:
    return build_layer(name, MadeArtifacts(normal(1, VOCAB, WIDTH), normal(2, VOCAB), **kind), isa)


def rows_of(count: int, seed: int = 3) -> tuple[Floats, Ids]:
    """Hidden vectors [count, D] of requests in flight [count], in any order."""
    draw = np.random.default_rng(seed)
    return normal(seed, count, WIDTH), draw.choice([r.index for r in REQUESTS], count).astype(np.int32)


def bits(top: TopK) -> bytes:
    return top.log_prob.tobytes() + top.token.tobytes()


def every_log_prob(run: OutputLayerRun, hidden: Floats, request: Ids) -> Floats:
    """Log probability [R, V] of all tokens, by forced scores."""
    tokens = range(VOCAB)
    return np.stack([run.log_prob(hidden, np.full(len(hidden), t, np.int32), request) for t in tokens], axis=1)


@every_layer
def test_whole_steps_can_run_in_the_core(name):
    run = made(name).open()
    assert run.native is not None and run.reason == ""


@every_layer
def test_candidates_are_in_order_and_ties_come_by_lower_id(name):
    artifacts = MadeArtifacts(whole(1, VOCAB, WIDTH), whole(2, VOCAB))
    artifacts.weight[60:120], artifacts.bias[60:120] = artifacts.weight[:60], artifacts.bias[:60]  # equal rows
    run, hidden = opened(build_layer(name, artifacts), REQUESTS), whole(3, 40, WIDTH)
    request = rows_of(40)[1]
    ties = 0
    for k in (1, 9, VOCAB):
        top = run.topk(hidden, k, request)
        assert top.log_prob.shape == top.token.shape == (40, k)
        assert (top.log_prob.dtype, top.token.dtype) == (np.float32, np.int32)
        for log_prob, token in zip(top.log_prob, top.token, strict=True):
            real = log_prob > -np.inf
            assert (token[~real] == 0).all() and real[: real.sum()].all()
            order = list(zip(-log_prob[real], token[real], strict=True))
            assert order == sorted(order) and len(set(token[real].tolist())) == real.sum()
            ties += int((np.diff(log_prob[real]) == 0).sum())
    assert ties > 100


@every_layer
@pytest.mark.parametrize("k", [1, 2, 10, VOCAB])
def test_fewer_candidates_are_the_first_of_more(name, k):
    run, (hidden, request) = opened(made(name), REQUESTS), rows_of(30)
    more, fewer = run.topk(hidden, VOCAB, request), run.topk(hidden, k, request)
    assert fewer.token.tolist() == more.token[:, :k].tolist()
    assert fewer.log_prob.tobytes() == np.ascontiguousarray(more.log_prob[:, :k]).tobytes()


@every_layer
def test_forced_scores_have_the_bits_of_candidates(name):
    run, (hidden, request) = opened(made(name), REQUESTS), rows_of(25)
    top = run.topk(hidden, 12, request)
    for j in range(12):
        real = top.log_prob[:, j] > -np.inf
        forced = run.log_prob(hidden, np.ascontiguousarray(top.token[:, j]), request)
        assert forced[real].tobytes() == top.log_prob[real, j].tobytes()


@every_layer
def test_logits_of_candidates_are_exact(name):
    """Two log probabilities of a row differ as the exact logits do, whatever the normalizer."""
    layer, (hidden, request) = made(name), rows_of(40)
    logits = _core.Linear(normal(1, VOCAB, WIDTH), normal(2, VOCAB)).apply(hidden)
    top = opened(layer, REQUESTS).topk(hidden, 10, request)
    logit = np.take_along_axis(logits, top.token, axis=1)
    real = top.log_prob > -np.inf
    gap = np.where(real, top.log_prob - top.log_prob[:, :1], 0)
    np.testing.assert_allclose(gap, np.where(real, logit - logit[:, :1], 0), atol=2e-5)


@every_layer
def test_a_full_budget_is_the_exact_layer(name):
    hidden, request = rows_of(60)
    run, exact = opened(made(name, full=True, fallback=False), REQUESTS), made("exact").open()
    for k in (1, 10):
        got, expected = run.topk(hidden, k, request), exact.topk(hidden, k, request)
        assert got.token.tolist() == expected.token.tolist()
        same = (got.token == expected.token) & (name != "screen")  # whose drawn residual mass counts here
        error = NORMALIZER.get(name, 0.0)
        np.testing.assert_allclose(got.log_prob[same], expected.log_prob[same], atol=error, rtol=0)


@every_layer
@pytest.mark.parametrize("fallback", [True, False])
def test_probabilities_never_sum_to_more_than_one(name, fallback):
    """Fact 11 of the design, for the sum over all tokens by forced scores, and over the candidates."""
    run, (hidden, request) = opened(made(name, fallback=fallback), REQUESTS), rows_of(40)
    most = np.exp(NORMALIZER.get(name, 0.0)) + 1e-4
    candidates = np.exp(run.topk(hidden, VOCAB, request).log_prob.astype(np.float64)).sum(axis=1)
    forced = np.exp(every_log_prob(run, hidden, request).astype(np.float64)).sum(axis=1)
    assert candidates.max() <= most and forced.max() <= most
    assert (candidates <= forced * (1 + 1e-5)).all()


@every_layer
def test_every_kernel_table_gives_the_same_bits(name):
    hidden, request = rows_of(50)
    answers = set()
    for isa in table_names():
        run = opened(made(name, isa), REQUESTS)
        forced = run.log_prob(hidden, np.arange(50, dtype=np.int32), request)
        answers.add(bits(run.topk(hidden, 9, request)) + forced.tobytes())
    assert len(answers) == 1


@every_layer_by_row
@pytest.mark.parametrize("rows", [1, 2, 7, 49, 110])
def test_a_row_alone_is_the_row_in_its_batch(name, rows):
    layer, (hidden, request) = made(name), rows_of(rows)
    run = opened(layer, REQUESTS)
    batch = run.topk(hidden, 9, request)
    turned = run.topk(hidden[::-1].copy(), 9, request[::-1].copy())
    assert bits(TopK(turned.log_prob[::-1], turned.token[::-1])) == bits(batch)
    by_index = {r.index: r for r in REQUESTS}
    for row in range(0, rows, 1 + rows // 12):
        one = opened(layer, [by_index[int(request[row])]])  # and without the other requests
        alone = one.topk(hidden[row : row + 1], 9, request[row : row + 1])
        assert bits(alone) == bits(TopK(batch.log_prob[row : row + 1], batch.token[row : row + 1]))


@every_layer
def test_threads_share_a_layer(name):
    """And another size in turn, so that a thread's scratch memory grows between calls."""
    layers = made(name), build_layer(name, MadeArtifacts(normal(1, 700, WIDTH), normal(2, 700)))
    batches = [rows_of(1 + i % 7, seed=10 + i) for i in range(24)]

    def ask(batch: tuple[Floats, Ids]) -> list[bytes]:
        return [bits(opened(layer, REQUESTS).topk(batch[0], 5, batch[1])) for layer in layers]

    alone = [ask(batch) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, batches)) == alone


@every_layer
def test_threads_may_share_a_run(name):
    """Their calls wait for each other."""
    run, batches = opened(made(name), REQUESTS), [rows_of(5, seed=10 + i) for i in range(16)]
    alone = [bits(run.topk(hidden, 5, request)) for hidden, request in batches]
    with ThreadPoolExecutor(4) as pool:
        assert [bits(top) for top in pool.map(lambda b: run.topk(b[0], 5, b[1]), batches)] == alone


@every_layer
def test_no_rows_give_no_candidates(name):
    run, none = opened(made(name), REQUESTS), np.empty(0, np.int32)
    top = run.topk(np.empty((0, WIDTH), np.float32), 3, none)
    assert top.log_prob.shape == top.token.shape == (0, 3)
    assert run.log_prob(np.empty((0, WIDTH), np.float32), none, none).shape == (0,)
    run.evict(none)


@every_layer
def test_a_vocabulary_of_one_token(name):
    run = opened(build_layer(name, MadeArtifacts(normal(1, 1, 8), normal(2, 1), full=True)), REQUESTS)
    top = run.topk(normal(3, 4, 8), 1, np.zeros(4, np.int32))
    assert (top.token == 0).all() and (top.log_prob <= NORMALIZER.get(name, 0.0) + 1e-6).all()


@every_layer_by_row
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38])
def test_a_hidden_vector_that_is_no_number_stays_a_row(name, value):
    """The other rows are as they were, and the row claims no probability above 1."""
    run, (hidden, request) = opened(made(name), REQUESTS), rows_of(9)
    before = run.topk(hidden, 5, request)
    hidden[4, 7] = value
    after = run.topk(hidden, 5, request)
    others = np.arange(9) != 4
    assert bits(TopK(after.log_prob[others], after.token[others])) == bits(
        TopK(before.log_prob[others], before.token[others])
    )
    assert not (after.log_prob[4] > 1e-3).any() and ((after.token >= 0) & (after.token < VOCAB)).all()


@every_layer
def test_bad_arguments_are_named(name):
    run, (hidden, request) = opened(made(name), REQUESTS), rows_of(2)
    tokens = np.array([0, 1], np.int32)
    for k in (0, -1, VOCAB + 1, 2**40):
        with pytest.raises(ValueError, match=f"k is {k}; it must be from 1 to the vocabulary size, {VOCAB}"):
            run.topk(hidden, k, request)
    for wrong, message in (
        (normal(3, 2, WIDTH - 1), rf"hidden has the shape \[2, {WIDTH - 1}\]; it must be \[any, {WIDTH}\]"),
        (normal(3, WIDTH), rf"hidden has the shape \[{WIDTH}\]"),
        (hidden.astype(np.float64), "hidden has another dtype than float32"),
        (normal(3, WIDTH, 2).T, "hidden is not C-contiguous"),
    ):
        with pytest.raises(ValueError, match=message):
            run.topk(wrong, 1, request)
        with pytest.raises(ValueError, match=message):
            run.log_prob(wrong, tokens, request)
    for wrong, message in ((request[:1], r"request has the shape \[1\]"), (request.astype(np.int64), "request has an")):
        with pytest.raises(ValueError, match=message):
            run.topk(hidden, 1, wrong)
    for wrong, message in (
        (np.array([0, VOCAB], np.int32), rf"token\[1\] is {VOCAB}; it must be from 0 to {VOCAB - 1}"),
        (np.array([-1, 0], np.int32), r"token\[0\] is -1"),
        (tokens[:1], r"token has the shape \[1\]; it must be \[2\]"),
        (tokens.astype(np.int64), "token has another dtype than int32"),
    ):
        with pytest.raises(ValueError, match=message):
            run.log_prob(hidden, wrong, request)


@every_layer
def test_bad_weights_are_refused(name):
    good = MadeArtifacts(normal(1, VOCAB, WIDTH), normal(2, VOCAB))
    artifacts = {n: good.read(n) for n in MODULES}
    for weight, bias, message in (
        (good.weight.astype(np.float64), good.bias, "weight has another dtype than float32"),
        (normal(1, WIDTH, VOCAB).T, good.bias, "weight is not C-contiguous"),
        (good.weight, good.bias[1:].copy(), rf"bias has the shape \[{VOCAB - 1}\]; it must be \[{VOCAB}\]"),
        (good.weight, good.bias.astype(np.float64), "bias has another dtype than float32"),
    ):
        bad = MadeArtifacts(weight, bias)
        for kind, one in artifacts.items():
            setattr(bad, kind, lambda one=one: one)
        with pytest.raises(ValueError, match=message):
            build_layer(name, bad)
    with pytest.raises(ValueError, match='isa is "mmx"; this machine can run'):
        build_layer(name, good, "mmx")


@every_layer
def test_requests_come_and_go(name):
    """A row's set is that of its own request, and a request that is gone leaves nothing."""
    layer, hidden = made(name), normal(3, 6, WIDTH)
    run, expected = layer.open(), {}
    for one in made_requests(20, seed=30):
        request = np.full(6, one.index, np.int32)
        run.admit([one])
        expected[one.index] = bits(opened(layer, [one]).topk(hidden, 20, request))
        assert bits(run.topk(hidden, 20, request)) == expected[one.index]
        if one.index % 2:
            run.evict(request[:1])
    if not name.startswith("shortlist"):
        assert len(set(expected.values())) == 1
        return
    with pytest.raises(ValueError, match="request 0 is in flight already; evict it first"):
        run.admit([Request(0, np.zeros(1, np.int32))])
    for index in (3, 999):
        gone = np.full(6, index, np.int32)
        with pytest.raises(ValueError, match=f"request is {index}, which was not admitted or is evicted"):
            run.topk(hidden, 1, gone)
        with pytest.raises(ValueError, match=f"request is {index}"):
            run.evict(np.array([0, index], np.int32))
    assert bits(run.topk(hidden, 20, np.zeros(6, np.int32))) == expected[0]  # nothing was forgotten by the refused call


@every_layer
def test_suppressed_tokens_come_last(name):
    suppressed = [0, 5, 5, 17, VOCAB - 1, *range(40, 80)]
    layer, (hidden, request) = made(name), rows_of(20)
    run, inner = opened(without(layer, suppressed), REQUESTS), opened(layer, REQUESTS)
    assert run.native is not None and without(layer, []) is layer
    expected = inner.topk(hidden, VOCAB, request)
    banned = np.isin(expected.token, suppressed)
    for k in (1, 12, VOCAB):
        top = run.topk(hidden, k, request)
        for row in range(20):
            left = expected.log_prob[row][~banned[row]][:k]
            real = left > -np.inf
            assert top.log_prob[row, : len(left)][real].tobytes() == left[real].tobytes()
            assert top.token[row, : len(left)][real].tolist() == expected.token[row][~banned[row]][:k][real].tolist()
            assert (top.log_prob[row, len(left) :] == -np.inf).all()
    forced = run.log_prob(hidden, np.full(20, 5, np.int32), request)
    assert forced.tobytes() == inner.log_prob(hidden, np.full(20, 5, np.int32), request).tobytes()


@every_layer_by_row
def test_layers_by_language_answer_their_own_rows(name):
    directions = [Languages("aa", "bb"), Languages("bb", "aa"), Languages("cc", "aa")]
    layers = {}
    for i, own in enumerate(directions):
        made_here = build_layer(name, MadeArtifacts(normal(i, VOCAB, WIDTH), normal(9 + i, VOCAB), seed=i))
        assert isinstance(made_here, NativeLayer)
        layers[own.scope("direction")] = made_here
    requests = [Request(r.index, r.source, languages=directions[i % 3]) for i, r in enumerate(made_requests(6))]
    run, hidden = opened(ByLanguage("direction", layers), requests), normal(3, 50, WIDTH)
    assert run.native is not None
    request = np.random.default_rng(4).choice([r.index for r in requests], 50).astype(np.int32)
    token = np.arange(50, dtype=np.int32)
    top, forced = run.topk(hidden, 7, request), run.log_prob(hidden, token, request)
    for one in requests:
        mine = request == one.index
        alone = opened(layers[one.languages.scope("direction")], [one])
        expected = alone.topk(hidden[mine], 7, request[mine])
        assert bits(TopK(top.log_prob[mine], top.token[mine])) == bits(expected)
        assert forced[mine].tobytes() == alone.log_prob(hidden[mine], token[mine], request[mine]).tobytes()
