"""Truth 5 for the baselines: exact logits, the full softmax at a full dial, and more of it the more the dial allows."""

from __future__ import annotations

import heapq
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from reference.layers import ReferenceLayer

from bench.baselines.adaptive_softmax import AdaptiveSoftmaxLayer
from bench.baselines.faiss_ivf import FaissIvfLayer
from bench.baselines.fgd import FgdLayer
from bench.baselines.full_softmax import FullSoftmaxLayer
from bench.baselines.greedy_mips import GreedyMipsLayer
from bench.baselines.pca_tree import PcaTreeLayer
from bench.baselines.scann_tree import ScannLayer
from bench.baselines.simple_lsh import SimpleLshLayer
from bench.baselines.svd_softmax import SvdSoftmaxLayer
from sharpbeam.errors import OptionError, SharpbeamError

VOCAB, WIDTH, ROWS, TOPICS = 600, 16, 60, 12


def toy(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Words and hidden vectors in clusters around the same directions; the same seed gives the same words."""
    draw = np.random.default_rng(seed)
    topic = draw.normal(size=(TOPICS, WIDTH))
    weight = topic[draw.integers(TOPICS, size=VOCAB)] + draw.normal(0, 0.6, (VOCAB, WIDTH))
    bias = draw.normal(0, 0.3, VOCAB)
    hidden = topic[draw.integers(TOPICS, size=rows)] + draw.normal(0, 0.4, (rows, WIDTH))
    return weight.astype(np.float32), bias.astype(np.float32), hidden.astype(np.float32)


WEIGHT, BIAS, MANY = toy(1, 1000 + ROWS)
SAMPLES, HIDDEN = MANY[:1000], MANY[1000:]


def needs(package: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(find_spec(package) is None, reason=f"{package} is not installed")


# Method, dials from little to much, and the full dial.
CASES = [
    pytest.param(FullSoftmaxLayer, [], {}, id="full softmax"),
    pytest.param(
        SvdSoftmaxLayer,
        [{"rank": 2, "rescored": 10}, {"rank": 6, "rescored": 10}, {"rank": 12, "rescored": 40}],
        {"rank": 3, "rescored": VOCAB},
        id="SVD-softmax",
    ),
    pytest.param(
        AdaptiveSoftmaxLayer,
        [{"head": 10, "depth": 1}, {"head": 60, "depth": 2}, {"head": 200}],
        {"head": VOCAB},
        id="adaptive softmax",
    ),
    pytest.param(
        GreedyMipsLayer,
        [{"budget": b} for b in (10, 60, 300)],
        {"budget": VOCAB},
        id="Greedy-MIPS",
        marks=needs("numba"),
    ),
    pytest.param(PcaTreeLayer, [{"depth": d} for d in (7, 5, 2)], {"depth": 0}, id="PCA tree"),
    pytest.param(
        SimpleLshLayer,
        [{"bits": b, "tables": 6} for b in (10, 6, 3)],
        {"bits": 0, "tables": 2},
        id="LSH",
        marks=needs("numba"),
    ),
    pytest.param(
        FgdLayer,
        [{"links": 3, "built": 10, "searched": s, "kept": 6} for s in (6, 15, 200)],
        {"searched": VOCAB, "kept": VOCAB},
        id="FGD",
        marks=needs("hnswlib"),
    ),
    pytest.param(
        FaissIvfLayer,
        [{"lists": 30, "probed": p} for p in (1, 3, 10)],
        {"lists": 30, "probed": 30},
        id="Faiss IVF",
        marks=needs("faiss"),
    ),
    pytest.param(
        ScannLayer,
        [{"leaves": 30, "probed": p, "kept": 30} for p in (1, 3, 10)],
        {"leaves": 30, "probed": 30, "kept": VOCAB},
        id="ScaNN",
        marks=needs("scann"),
    ),
]
SMALL = [pytest.param(c.values[0], (c.values[1] or [{}])[-1], id=c.id, marks=c.marks) for c in CASES]


def recall(output_layer, k: int = 5) -> float:
    """Share of the k best words that are among the k that are found."""
    exact, got = ReferenceLayer(WEIGHT, BIAS).topk(HIDDEN, k).token, output_layer.topk(HIDDEN, k)
    hits = [len(set(a) & set(b)) for a, b in zip(exact.tolist(), got.token.tolist(), strict=True)]
    return sum(hits) / exact.size


@pytest.mark.parametrize(("method", "dials", "full"), CASES)
def test_a_full_dial_is_the_full_softmax(method, dials, full):
    output_layer, reference = method.build(WEIGHT, BIAS, SAMPLES, **full), ReferenceLayer(WEIGHT, BIAS)
    best = reference.topk(HIDDEN, 5)
    got = output_layer.topk(HIDDEN, 5)
    assert got.token.tolist() == best.token.tolist()
    assert got.log_prob.dtype == np.float32
    assert got.token.dtype == np.int32
    if method is not FaissIvfLayer:  # which keeps a part of the words that it has seen
        np.testing.assert_allclose(got.log_prob, best.log_prob, atol=1e-4)
        token = np.arange(ROWS, dtype=np.int32)
        np.testing.assert_allclose(output_layer.log_prob(HIDDEN, token), reference.log_prob(HIDDEN, token), atol=1e-4)


@pytest.mark.parametrize(("method", "dials", "full"), CASES[1:])
def test_recall_grows_with_the_dial(method, dials, full):
    recalls = [recall(method.build(WEIGHT, BIAS, SAMPLES, **dial)) for dial in dials]
    assert recalls[0] < recalls[1] < recalls[2]
    assert recalls[2] > 0.8


@pytest.mark.parametrize(("method", "dial"), SMALL)
def test_a_candidates_logit_is_exact_and_normalized_over_the_candidates(method, dial):
    output_layer = method.build(WEIGHT, BIAS, SAMPLES, **dial)
    top = output_layer.topk(HIDDEN, 5)
    logits = HIDDEN.astype(np.float64) @ WEIGHT.T + BIAS
    for row, h in enumerate(HIDDEN):
        words = output_layer.candidates(h)
        assert words.dtype == np.int32
        assert (np.diff(words) > 0).all()
        total = np.log(np.exp(logits[row, words]).sum())
        best = words[np.argsort(-logits[row, words], kind="stable")][:5]
        assert top.token[row].tolist()[: len(best)] == best.tolist()
        if method is SvdSoftmaxLayer:  # its normalizer counts the others too
            total = logits[row, best[0]] - top.log_prob[row, 0]
        np.testing.assert_allclose(top.log_prob[row, : len(best)], logits[row, best] - total, atol=1e-4)


@pytest.mark.parametrize(("method", "dial"), SMALL)
def test_log_prob_has_the_bytes_of_topk(method, dial):
    output_layer = method.build(WEIGHT, BIAS, SAMPLES, **dial)
    top = output_layer.topk(HIDDEN, 5)
    for j in range(5):
        present = top.log_prob[:, j] > -np.inf
        got = output_layer.log_prob(HIDDEN[present], top.token[present, j])
        assert got.tobytes() == top.log_prob[present, j].tobytes()


@pytest.mark.parametrize(("method", "dial"), SMALL)
def test_a_row_alone_is_the_row_in_its_batch(method, dial):
    output_layer = method.build(WEIGHT, BIAS, SAMPLES, **dial)
    batch = output_layer.topk(HIDDEN, 5)
    for row in range(0, ROWS, 7):
        alone = output_layer.topk(HIDDEN[row : row + 1], 5)
        assert alone.token.tobytes() == batch.token[row : row + 1].tobytes()
        assert alone.log_prob.tobytes() == batch.log_prob[row : row + 1].tobytes()


@pytest.mark.parametrize(
    ("method", "first", "second"),
    [
        pytest.param(GreedyMipsLayer, {"budget": 10}, {"budget": 90}, id="Greedy-MIPS", marks=needs("numba")),
        pytest.param(
            FgdLayer, {"searched": 8, "kept": 5}, {"searched": 90, "kept": 20}, id="FGD", marks=needs("hnswlib")
        ),
        pytest.param(
            FaissIvfLayer,
            {"lists": 20, "probed": 1},
            {"lists": 20, "probed": 9, "kept": 50},
            id="Faiss IVF",
            marks=needs("faiss"),
        ),
        pytest.param(
            ScannLayer,
            {"leaves": 20, "probed": 1, "kept": 10},
            {"leaves": 20, "probed": 9, "kept": 50},
            id="ScaNN",
            marks=needs("scann"),
        ),
    ],
)
def test_a_structure_serves_several_dials(method, first, second):
    """A method built from another equals one built anew, and the other is unchanged."""
    one = method.build(WEIGHT, BIAS, **first)
    before = one.topk(HIDDEN, 5)
    built = method.build(WEIGHT, BIAS, **second, like=one)
    other, after = built.topk(HIDDEN, 5), one.topk(HIDDEN, 5)
    assert after.log_prob.tobytes() == before.log_prob.tobytes() != other.log_prob.tobytes()
    assert recall(built) > recall(one)
    if method is not ScannLayer:  # no two trees of it are the same
        anew = method.build(WEIGHT, BIAS, **second).topk(HIDDEN, 5)
        assert other.token.tobytes() == anew.token.tobytes() and other.log_prob.tobytes() == anew.log_prob.tobytes()


def test_trained_tokens_of_tails_find_more_than_those_of_a_regression():
    layers = [AdaptiveSoftmaxLayer.build(WEIGHT, BIAS, SAMPLES, head=60, trained=trained) for trained in (False, True)]
    assert recall(layers[0]) < recall(layers[1])


@needs("numba")
@pytest.mark.parametrize("budget", [1, 10, 90, VOCAB - 1])
def test_greedy_mips_takes_the_words_of_the_merged_lists(budget):
    """As by the heap of Yu et al., algorithm 3."""
    layer, rows = GreedyMipsLayer.build(WEIGHT, BIAS, budget=budget), np.column_stack([WEIGHT, BIAS])
    for h in HIDDEN[:10]:
        product = rows * np.append(h, np.float32(1))  # [V, D + 1]
        lists = [sorted((-p, j, i) for i, p in enumerate(product[:, j])) for j in range(WIDTH + 1)]
        merged: dict[int, None] = {}
        for _, _, word in heapq.merge(*lists):
            merged[word] = None
            if len(merged) == budget:
                break
        assert layer.candidates(h).tolist() == sorted(merged)


@needs("numba")
def test_ties_go_to_the_lower_id():
    weight, bias = np.resize(WEIGHT[:3], (40, WIDTH)), np.zeros(40, np.float32)
    for output_layer in (
        FullSoftmaxLayer.build(weight, bias),
        GreedyMipsLayer.build(weight, bias, budget=40),
        PcaTreeLayer.build(weight, bias, depth=0),
    ):
        assert (
            output_layer.topk(HIDDEN, 8).token.tolist() == ReferenceLayer(weight, bias).topk(HIDDEN, 8).token.tolist()
        )


@needs("numba")
def test_where_candidates_are_too_few_the_others_are_nothing():
    output_layer = GreedyMipsLayer.build(WEIGHT, BIAS, budget=3)
    top = output_layer.topk(HIDDEN, 5)
    assert np.isfinite(top.log_prob[:, :3]).all()
    assert (top.log_prob[:, 3:] == -np.inf).all()
    assert (top.token[:, 3:] == 0).all()
    outside = np.int32([next(w for w in range(VOCAB) if w not in output_layer.candidates(h)) for h in HIDDEN])
    assert (output_layer.log_prob(HIDDEN, outside) == -np.inf).all()


@needs("numba")
def test_a_vector_without_candidates_has_an_answer():
    output_layer = SimpleLshLayer.build(WEIGHT, BIAS, bits=20, tables=1)
    alone = [row for row, h in enumerate(HIDDEN) if not len(output_layer.candidates(h))]
    assert alone
    assert (output_layer.topk(HIDDEN[alone], 2).log_prob == -np.inf).all()
    assert (output_layer.log_prob(HIDDEN[alone], np.zeros(len(alone), np.int32)) == -np.inf).all()


def test_svd_softmax_has_a_normalizer_over_all_words():
    """Previews stand for the logits of the words that are not rescored, so it is near the exact one."""
    output_layer = SvdSoftmaxLayer.build(WEIGHT, BIAS, rank=12, rescored=40)
    token = ReferenceLayer(WEIGHT, BIAS).topk(HIDDEN, 1).token[:, 0]
    reference = ReferenceLayer(WEIGHT, BIAS).log_prob(HIDDEN, token)
    np.testing.assert_allclose(output_layer.log_prob(HIDDEN, token), reference, atol=0.1)
    for h in HIDDEN[:3]:
        every = output_layer.log_prob(np.tile(h, (VOCAB, 1)), np.arange(VOCAB, dtype=np.int32))
        np.testing.assert_allclose(np.exp(every).sum(), 1, atol=1e-4)


def test_adaptive_softmax_opens_few_tails_for_frequent_words():
    output_layer = AdaptiveSoftmaxLayer.build(WEIGHT, BIAS, SAMPLES, head=200, depth=1)
    sizes = [len(output_layer.candidates(h)) for h in HIDDEN]
    assert min(sizes) == 200
    assert np.mean(sizes) < 0.9 * VOCAB


def test_no_rows_give_no_candidates():
    top = FullSoftmaxLayer.build(WEIGHT, BIAS).topk(HIDDEN[:0], 3)
    assert top.log_prob.shape == top.token.shape == (0, 3)


FULL = FullSoftmaxLayer.build(WEIGHT, BIAS)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SvdSoftmaxLayer.build(WEIGHT, BIAS, rank=17), "rank is 17; it must be from 1 to 16"),
        (
            lambda: SvdSoftmaxLayer.build(WEIGHT, BIAS, rank=9, rescored=0),
            "rescored is 0; it must be from 1 to 600",
        ),
        (lambda: AdaptiveSoftmaxLayer.build(WEIGHT, BIAS, SAMPLES, head=601), "head is 601; .* from 1 to 600"),
        (lambda: AdaptiveSoftmaxLayer.build(WEIGHT, BIAS, SAMPLES, head=9, tails=0), "tails is 0; it must be"),
        (lambda: AdaptiveSoftmaxLayer.build(WEIGHT, BIAS, SAMPLES, head=9, depth=0), "depth is 0; it must be"),
        (lambda: AdaptiveSoftmaxLayer.build(WEIGHT, BIAS), r"samples is None; .* \[at least 1, 16\]"),
        (lambda: AdaptiveSoftmaxLayer.build(WEIGHT, BIAS, SAMPLES[:, :3]), r"samples has the shape \[1000, 3\]"),
        (lambda: GreedyMipsLayer.build(WEIGHT, BIAS, budget=601), "budget is 601; it must be from 1 to 600"),
        (lambda: PcaTreeLayer.build(WEIGHT, BIAS, depth=10), "depth is 10; it must be from 0 to 9"),
        (lambda: SimpleLshLayer.build(WEIGHT, BIAS, bits=21), "bits is 21; it must be from 0 to 20"),
        (lambda: SimpleLshLayer.build(WEIGHT, BIAS, tables=0), "tables is 0; it must be from 1 to 1000"),
        (lambda: FgdLayer.build(WEIGHT, BIAS, searched=5, kept=6), "searched is 5; it must be from 6 to 600"),
        (lambda: FgdLayer.build(WEIGHT, BIAS, links=1), "links is 1; it must be from 2 to 100"),
        (lambda: FaissIvfLayer.build(WEIGHT, BIAS, lists=8, probed=9), "probed is 9; it must be from 1 to 8"),
        (
            lambda: ScannLayer.build(WEIGHT, BIAS, leaves=8, probed=8, kept=0),
            "kept is 0; it must be from 1 to 600",
        ),
        (lambda: FullSoftmaxLayer.build(WEIGHT[0], BIAS), r"weight has the shape \[16\]; it must be \[at least 1"),
        (lambda: GreedyMipsLayer.build(WEIGHT, BIAS[:9]), r"bias has the shape \[9\]; it must be \[600\]"),
        (lambda: FULL.topk(HIDDEN, 601), "k is 601; it must be from 1 to 600"),
        (lambda: FULL.topk(HIDDEN[:, :5], 1), r"hidden has the shape \[60, 5\]; it must be \[any, 16\]"),
        (lambda: FULL.log_prob(HIDDEN[:1], np.int32([600])), "token is 600; it must be from 0 to 599"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(OptionError, match=message):
        call()


@pytest.mark.parametrize(
    ("package", "build"),
    [
        ("hnswlib", FgdLayer.build),
        ("faiss", FaissIvfLayer.build),
        ("scann", ScannLayer.build),
    ],
)
def test_a_missing_peer_is_named(monkeypatch, package, build):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SharpbeamError, match=rf"package {package}, .* pip install 'sharpbeam\[bench\]'"):
        build(WEIGHT, BIAS)
