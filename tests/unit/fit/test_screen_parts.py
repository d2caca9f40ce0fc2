"""Clusters, candidate sets, L2S, and the statistics of the fidelity, each against something known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from sharpbeam.fit.bound import design_effect, lower_bound
from sharpbeam.fit.collect import OutputMatrix
from sharpbeam.fit.screen.clusters import (
    NEAR,
    Counts,
    Tally,
    assign,
    kmeans,
    knapsack,
    membership,
    nearest,
    screen_of,
    widen,
)
from sharpbeam.fit.screen.residual_mass import complete, fit_residual, weigh
from sharpbeam.output_layers.screen import ResidualMass, Screen

EOS = np.array([2], np.int32)


def blobs(seed: int, rows: int = 600, clusters: int = 6, dim: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Well separated clusters of different lengths, and whose each row is."""
    draw = np.random.default_rng(seed)
    centers = draw.normal(0, 6, (clusters, dim))
    whose = draw.integers(0, clusters, rows)
    return (centers[whose] + draw.normal(0, 0.3, (rows, dim))).astype(np.float32), whose


def counted(label: list[int], top: np.ndarray, clusters: int) -> Counts:
    """Needs of each cluster of 10 words, by vectors with these labels."""
    tally = Tally(np.eye(clusters, dtype=np.float32), np.zeros(clusters, np.float32), 10, top.shape[1])
    assert tally.add(np.eye(clusters, dtype=np.float32)[label], top).tolist() == label
    return tally.counts(EOS)


# ---- bounds


@pytest.mark.parametrize(
    ("hits", "trials", "confidence", "bound"),
    [
        (9, 10, 0.975, 0.5549839),  # the lower ends of the two-sided 95% intervals in the tables
        (50, 100, 0.975, 0.3983211),
        (3, 10, 0.975, 0.0667395),
        (10, 10, 0.95, 0.05 ** (1 / 10)),  # without a miss: alpha ** (1 / n)
        (4000, 4000, 0.95, 0.05 ** (1 / 4000)),
        (1, 5, 0.95, 1 - 0.95 ** (1 / 5)),  # one hit: 1 - (1 - alpha) ** (1 / n)
        (0, 5, 0.95, 0.0),
    ],
)
def test_clopper_pearson(hits, trials, confidence, bound):
    assert lower_bound(hits, trials, confidence) == pytest.approx(bound, abs=1e-6)


def test_the_tail_of_a_binomial_at_the_bound_is_what_is_left_of_the_confidence():
    for n, confidence in itertools.product((1, 4, 30), (0.5, 0.95, 0.999)):
        for k in range(1, n + 1):
            p = lower_bound(k, n, confidence)
            tail = sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))
            assert tail == pytest.approx(1 - confidence, rel=1e-4)


def test_bounds_of_fractions_and_of_many_trials_are_quantiles_of_beta_distributions():
    stats = pytest.importorskip("scipy.stats")
    for hits, trials in ((0.3, 2.5), (12.5, 80.25), (999_000.5, 1e6), (5e5, 5e5), (2, 1e7), (4e6, 4e6 + 0.5)):
        expected = float(stats.beta.ppf(0.05, hits, trials - hits + 1))
        bound = lower_bound(hits, trials)
        assert bound == pytest.approx(expected, rel=2e-5) and 1 - bound == pytest.approx(1 - expected, rel=2e-5)


def test_design_effect():
    draw = np.random.default_rng(1)
    sentence = np.arange(2000, dtype=np.int32).repeat(10)
    alone = draw.random(20_000) < 0.1
    assert design_effect(alone, sentence) == pytest.approx(1, abs=0.1)
    together = (draw.random(2000) < 0.1).repeat(10)  # all steps of a sentence alike: ten steps say as much as one
    assert design_effect(together, sentence) == pytest.approx(10, rel=0.01)
    assert design_effect(np.zeros(20_000, bool), sentence) == 1


# ---- clusters


@pytest.mark.parametrize("spherical", [False, True])
def test_kmeans_finds_clusters(spherical):
    rows, whose = blobs(1, clusters=4)
    weight, bias = kmeans(rows, 12, seed=1, spherical=spherical)
    label = assign(rows, weight, bias)
    for cluster in range(12):
        assert len(set(whose[label == cluster])) <= 1  # no cluster lies across two blobs
    if spherical:
        np.testing.assert_allclose(np.linalg.norm(weight, axis=1), 1, rtol=1e-5)
        assert not bias.any()


def test_kmeans_assigns_by_distance_and_centroids_are_means():
    rows, _ = blobs(2)
    weight, bias = kmeans(rows, 6, seed=3)
    label = assign(rows, weight, bias)
    distance = np.linalg.norm(rows[:, None].astype(np.float64) - weight, axis=2)
    assert label.tolist() == distance.argmin(axis=1).tolist()
    for cluster in np.unique(label):
        np.testing.assert_allclose(weight[cluster], rows[label == cluster].mean(axis=0), atol=1e-4)


def test_kmeans_depends_on_the_seed_only():
    rows, _ = blobs(3)
    assert kmeans(rows, 7, seed=5)[0].tobytes() == kmeans(rows, 7, seed=5)[0].tobytes()
    assert kmeans(rows, 7, seed=5)[0].tobytes() != kmeans(rows, 7, seed=6)[0].tobytes()


def test_as_many_clusters_as_rows():
    rows, _ = blobs(4, rows=9)
    weight, bias = kmeans(rows, 9, seed=1)
    assert sorted(assign(rows, weight, bias).tolist()) == list(range(9))


# ---- sets


def test_every_word_seen_is_the_union():
    counts = counted([0, 0, 2], np.array([[5, 1], [1, 7], [2, 9]], np.int32), 3)
    screen = screen_of(np.zeros((3, 1), np.float32), np.zeros(3, np.float32), counts, knapsack(counts, 0))
    assert screen.start.tolist() == [0, 4, 5, 7]
    assert screen.token.tolist() == [1, 2, 5, 7, 2, 2, 9]  # eos in each, also in the empty one
    assert counts.count[counts.token == 1].tolist() == [2]


def test_words_of_vectors_nearby_are_in_larger_sets():
    """A vector between two clusters needs a word that only the other one has seen."""
    rows = np.array([[0.0], [1.0], [4.0], [9.0]], np.float32)
    weight, bias = np.array([[0.5], [4.0], [9.0]], np.float32), np.float32([-0.125, -8, -40.5])
    distance = np.abs(rows - weight.T)
    assert nearest(rows, weight, bias, 3).tolist() == np.argsort(distance, axis=1).tolist()
    top = np.array([[5], [6], [7], [8]], np.int32)
    tallies = [Tally(weight, bias, 10, 1, neighbors) for neighbors in (True, False)]
    assert [tally.add(rows, top).tolist() for tally in tallies] == [[0, 0, 1, 2]] * 2
    counts, own = (tally.counts(EOS) for tally in tallies)
    assert own.token[own.cluster == 0].tolist() == [2, 5, 6]
    assert counts.token[counts.cluster == 0].tolist() == [2, 5, 6, 7, 8]
    seven, eight = (int(np.flatnonzero((counts.cluster == 0) & (counts.token == word))[0]) for word in (7, 8))
    assert counts.near[[seven, eight]].tolist() == [NEAR[0], NEAR[1]]
    assert counts.count[[seven, eight]].tolist() == [0, 0]
    kept = knapsack(counts, 4.0)
    assert kept[seven] and not kept[eight]  # the nearer one first


def test_membership():
    counts = counted([0, 0, 2], np.array([[5, 1], [1, 7], [2, 9]], np.int32), 3)
    screen = screen_of(np.zeros((3, 1), np.float32), np.zeros(3, np.float32), counts, knapsack(counts, 0))
    result = membership(screen, np.array([0, 1, 2, 2], np.int32), np.array([[1, 9], [2, 3], [9, 2], [0, 1]]), 10)
    assert result.tolist() == [[True, False], [True, False], [True, True], [False, False]]


def tiny_counts(seed: int, same_size: bool) -> Counts:
    """Twelve pairs in three clusters."""
    draw = np.random.default_rng(seed)
    rows = np.full(3, 8) if same_size else draw.integers(3, 20, 3)
    cluster = np.arange(3, dtype=np.int32).repeat(4)
    number = np.array([draw.integers(0, rows[t]) for t in cluster])  # below `rows`: none is in the set by force
    return Counts(rows, cluster, np.tile(np.arange(4, dtype=np.int32), 3), number, np.zeros(12))


def value(counts: Counts, kept: np.ndarray) -> int:
    """Misses that the kept pairs take off."""
    return int(counts.count[kept].sum())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("same_size", [True, False])
def test_knapsack_against_every_choice(seed, same_size):
    """The best of all 4,096 choices where all pairs weigh the same; else not worse than it by more than one pair."""
    counts = tiny_counts(seed, same_size)
    weight = counts.rows[counts.cluster] / counts.rows.sum()
    for budget in (0.5, 1.0, 2.0, 3.0):
        kept = knapsack(counts, budget)
        assert weight[kept].sum() <= budget + 1e-9
        every = (np.array(bits, bool) for bits in itertools.product((False, True), repeat=12))
        best = max(value(counts, choice) for choice in every if weight[choice].sum() <= budget + 1e-9)
        got = value(counts, kept)
        if same_size:
            assert got == pytest.approx(best)
        else:
            assert got >= best - counts.count.max()
        share = counts.share
        if kept.any() and not kept.all():
            assert share[kept].min() >= share[~kept & (counts.count > 0)].max(initial=0)  # the ratio's order


def test_a_budget_smaller_than_what_must_be_kept():
    counts = counted([0, 1], np.array([[5], [6]], np.int32), 2)
    kept = knapsack(counts, 0.5)
    assert counts.token[kept].tolist() == [2, 5, 2, 6]  # needed by every vector of their clusters


# ---- learning to screen


def needs_words(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Vectors whose needed words follow directions of little variance: k-means splits along the others."""
    draw = np.random.default_rng(seed)
    hidden = draw.normal(0, 1, (1000, 6)).astype(np.float32) * np.array([3, 3, 3, 1, 1, 1], np.float32)
    kind = (hidden[:, 3] > 0).astype(np.int32) * 4 + (hidden[:, 4] > 0) * 2 + (hidden[:, 5] > 0)
    top = 10 + 5 * kind[:, None] + np.arange(5)
    return hidden, top.astype(np.int32)


def test_l2s_lowers_its_loss_from_the_spherical_start():
    pytest.importorskip("torch")
    from sharpbeam.fit.screen.l2s import L2sTask, learn, objective

    hidden, top = needs_words(1)
    task = L2sTask(hidden, top, 60, EOS, budget=12.0)
    start, _ = kmeans(hidden, 8, seed=1, spherical=True)

    def loss(weight: np.ndarray) -> float:
        counts = task.counts(weight)
        kept = knapsack(counts, task.budget)
        assert counts.rows[counts.cluster[kept]].sum() <= 12.0 * counts.rows.sum() + 1e-6
        return objective(counts, kept, top.size)

    assert loss(learn(task, start, rounds=3, seed=1, steps=150)) < 0.9 * loss(start)


def test_the_objective_counts_misses_and_useless_words():
    pytest.importorskip("torch")
    from sharpbeam.fit.screen.l2s import PENALTY, objective

    counts = Counts(
        np.array([10]), np.zeros(3, np.int32), np.arange(3, dtype=np.int32), np.array([10, 4, 6]), np.zeros(3)
    )
    assert objective(counts, np.array([True, True, False]), 20) == pytest.approx(6 + PENALTY * 6)


# ---- tails


def test_pieces_of_a_tail_bend_as_the_words_outside_do():
    """Words outside pull to opposite sides: their weight rises on both, which no single piece can follow."""
    draw = np.random.default_rng(1)
    weight = np.concatenate([draw.normal(0, 0.1, (40, 3)), draw.normal(0, 0.1, (80, 3))]).astype(np.float32)
    weight[40:80, 0] += 4
    weight[80:, 0] -= 4
    bias = np.zeros(120, np.float32)
    hidden = draw.normal(0, 1, (3000, 3)).astype(np.float32)
    logits = (hidden @ weight.T).astype(np.float64)
    total, outside = (np.logaddexp.reduce(logits[:, first:], axis=1) for first in (0, 40))
    output = OutputMatrix(weight, bias)
    start, token = np.array([0, 40], np.int32), np.arange(40, dtype=np.int32)
    screen = Screen(np.zeros((1, 3), np.float32), np.zeros(1, np.float32), start, token)
    mass = weigh(hidden[:1500], total[:1500].astype(np.float32), np.zeros(1500, np.int32), 1, output)
    assert mass.share.sum() == pytest.approx(1, abs=1e-4)
    fitted = complete(screen, output, mass, hidden[:1500], total[:1500].astype(np.float32))

    def error(tail: ResidualMass) -> float:
        result = np.logaddexp.reduce((hidden[1500:] @ tail.weight[0].T + tail.bias[0]).astype(np.float64), axis=1)
        return float(np.abs(result - outside[1500:]).mean())

    flat = ResidualMass(np.zeros((1, 1, 3), np.float32), np.zeros((1, 1), np.float32))
    inside = np.logaddexp.reduce(logits[:1500, :40], axis=1).astype(np.float32)
    alone = fit_residual(hidden[:1500], np.zeros(1500, np.int32), flat, inside, total[:1500].astype(np.float32))
    assert fitted.residual is not None
    assert error(fitted.residual) < 0.05
    assert error(alone) > 1


def test_widened_sets_take_the_likeliest_words():
    screen = Screen(np.zeros((2, 1), np.float32), np.zeros(2, np.float32), np.int32([0, 1, 3]), np.int32([3, 0, 1]))
    share = np.float32([[0.1, 0.3, 0.2, 0.4], [0.4, 0.3, 0.05, 0.25]])
    wide = widen(screen, np.array([1, 1]), share, 2.5)  # of the average 1.5, so two words of one cluster
    assert wide.start.tolist() == [0, 2, 5]
    assert wide.token.tolist() == [1, 3, 0, 1, 3]
