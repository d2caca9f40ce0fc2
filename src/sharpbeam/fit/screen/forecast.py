"""A forecast of what a screen can gain, in seconds, from the first hidden vectors of a long collection.

With few vectors no screen reaches a high fidelity: its sets miss too much. Measured on translation models, the share of
steps that a screen gets wrong halves when the vectors double, and sets of every token that was seen grow by a quarter.
So a screen of n vectors that is asked for (N / n) times as many wrong steps has about as many rows that fall back as
one of N vectors that is asked for the fidelity itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sharpbeam.fit.screen.collect import Collection
from sharpbeam.fit.screen.output import OutputMatrix, Steps
from sharpbeam.fit.screen.search import CLUSTERS, SHARES, ScreenSearch, deal
from sharpbeam.options.fit import ScreenOptions

ENOUGH = 20_000  # hidden vectors for a forecast
GROWTH = 0.33  # of sets: they grow as this power of the number of vectors
MOST_WRONG = 0.1  # share of steps beyond which a screen says nothing of a better one
HALF = 0.5  # confidence of a bound that is as often too high as too low
PAYS = 0.9  # bytes of a screen over those of a scan, above which it does not pay


@dataclass(frozen=True)
class Forecast:
    """A screen's likely cost for a row, with as many hidden vectors as will be collected."""

    vectors: int
    fidelity: float
    cost: float  # bytes that a row reads
    fallback: float  # share of rows that go to the exact layer
    scan_cost: float  # bytes that an int8 scan of all tokens reads for a row

    @property
    def pays(self) -> bool:
        """Whether the screen reads clearly less than a scan."""
        return self.cost < PAYS * self.scan_cost

    def __str__(self) -> str:
        figures = (
            f"forecast for {self.vectors:,} vectors and a fidelity of {self.fidelity}: a row reads about "
            f"{self.cost / 1024:,.0f} KiB, {self.scan_cost / self.cost:.1f} times fewer than a scan of all tokens; "
            f"{self.fallback:.0%} of the rows fall back to the exact layer."
        )
        if self.pays:
            return figures
        return f"{figures} It hardly pays for this model; give more --vectors or ask for a lower --fidelity."


def forecast(collection: Collection, output: OutputMatrix, eos_id: int, options: ScreenOptions) -> Forecast:
    """The forecast for `options.vectors` hidden vectors from those of `collection`; `options` has a fidelity."""
    fit, choose, _ = deal(collection)
    more = max(1.0, options.vectors / len(collection))
    wrong = min(MOST_WRONG, (1 - options.fidelity) * more)
    search = ScreenSearch(
        Steps.of(fit, output), Steps.of(choose, output), output, eos_id, replace(options, fidelity=1 - wrong)
    )
    search.confidence = HALF
    found = search.cluster("kmeans", min(options.clusters or CLUSTERS[0], len(fit)))
    if options.budget:
        search.try_budget(found, options.budget)
    else:
        for share in SHARES[:3]:
            search.try_share(found, share)
    vocab, dim = output.weight.shape
    growth = 1.0 if options.budget else more**GROWTH
    costs = {}
    for setting in search.curve:
        size = min(setting.measure.average_set * growth, 0.5 * vocab)
        costs[dim * (setting.clusters + size + setting.measure.fallback * vocab)] = setting.measure.fallback
    cost = min(costs)
    return Forecast(options.vectors, options.fidelity, cost, costs[cost], float(vocab * dim))
