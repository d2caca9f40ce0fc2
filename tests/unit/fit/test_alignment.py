"""IBM model 1 against rounds that are worked out by hand, and against a version written for reading."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from sharpbeam.fit import shortlist
from sharpbeam.fit.shortlist import align


def ids(*rows: list[int]) -> list[np.ndarray]:
    return [np.array(row, np.int32) for row in rows]


def table(result: shortlist.Translations) -> dict[tuple[int, int], float]:
    pairs = zip(result.source.tolist(), result.target.tolist(), strict=True)
    return dict(zip(pairs, result.probability.tolist(), strict=True))


def plain(
    sources: list[np.ndarray], targets: list[np.ndarray], empty: int, rounds: int
) -> dict[tuple[int, int], float]:
    """The same, one pair of words after another."""
    t: dict[tuple[int, int], float] = defaultdict(lambda: 1.0)
    for _ in range(rounds):
        count: dict[tuple[int, int], float] = defaultdict(float)
        total: dict[int, float] = defaultdict(float)
        for source, target in zip(sources, targets, strict=True):
            words = [*source.tolist(), empty]
            for w in target.tolist():
                norm = sum(t[s, w] for s in words)
                for s in words:
                    count[s, w] += t[s, w] / norm
                    total[s] += t[s, w] / norm
        t = {(s, w): c / total[s] for (s, w), c in count.items()}
    return {(s, w): p for (s, w), p in t.items() if s != empty}


def test_two_rounds_by_hand():
    """ "das Haus" = "the house", "das Buch" = "the book", "ein Buch" = "a book" (Koehn's example), with an empty word.

    Round 1: all alike, so each target word is a third das, a third Haus, a third empty. das: the 2/3, house 1/3, book
    1/3, of 4/3 in all: 1/2, 1/4, 1/4. Haus: the and house 1/2 each. Empty: the 2/3, house 1/3, book 2/3, a 1/3 of 2.
    """
    das, haus, buch, ein = range(4)
    the, house, book, a = range(4)
    sources, targets = ids([das, haus], [das, buch], [ein, buch]), ids([the, house], [the, book], [a, book])
    first = table(align(list(zip(sources, targets, strict=True)), 4, 1, lambda _: None))
    assert first == pytest.approx({
        (das, the): 1 / 2, (das, house): 1 / 4, (das, book): 1 / 4, (haus, the): 1 / 2, (haus, house): 1 / 2,
        (buch, the): 1 / 4, (buch, book): 1 / 2, (buch, a): 1 / 4, (ein, a): 1 / 2, (ein, book): 1 / 2,
    })  # fmt: skip
    # Round 2, "house" of the first pair: das 1/4, Haus 1/2, empty 1/6, so Haus has 6/11 of it; and of "the", das 1/2,
    # Haus 1/2, empty 1/3: Haus has 3/8. So t(house | Haus) = 6/11 / (6/11 + 3/8) = 48/81.
    second = table(align(list(zip(sources, targets, strict=True)), 4, 2, lambda _: None))
    assert second[haus, house] == pytest.approx(48 / 81)
    late = table(align(list(zip(sources, targets, strict=True)), 4, 50, lambda _: None))
    assert max((w for w in range(4) if (haus, w) in late), key=lambda w: late[haus, w]) == house
    assert max((w for w in range(4) if (buch, w) in late), key=lambda w: late[buch, w]) == book


@pytest.mark.parametrize("cells", [1, 50, 1 << 21])
def test_as_written_for_reading(cells, monkeypatch):
    monkeypatch.setattr(shortlist, "CELLS", cells)
    draw = np.random.default_rng(1)
    sources = [draw.integers(0, 12, draw.integers(0, 7)).astype(np.int32) for _ in range(60)]
    targets = [draw.integers(0, 15, draw.integers(0, 7)).astype(np.int32) for _ in range(60)]
    result = align(list(zip(sources, targets, strict=True)), 12, 4, lambda _: None)
    assert table(result) == pytest.approx(plain(sources, targets, 12, 4), rel=1e-9)
    assert (np.diff(result.source.astype(np.int64) << 32 | result.target) > 0).all()
    sums = np.bincount(result.source, result.probability)
    assert sums[sums > 0] == pytest.approx(1.0)


def test_nothing_to_align():
    result = align(list(zip(ids([], [1]), ids([2], []), strict=True)), 5, 3, lambda _: None)
    assert result.source.tolist() == []
