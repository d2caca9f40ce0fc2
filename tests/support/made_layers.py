"""Every registered output layer, built from drawn weights and artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.fit.layer import MODULES
from sharpbeam.options.decode import OutputLayerOptions
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun
from sharpbeam.output_layers.registry import LayerInputs, find_output_layer
from sharpbeam.output_layers.screen import FallbackTest, ResidualMass, Screen, Screens
from sharpbeam.output_layers.shortlist import Shortlist, ShortlistTest
from sharpbeam.types import Floats, Ids, Request

SOURCES = 30  # source tokens of the shortlist
CLUSTERS = 5


def normal(seed: int, *shape: int) -> Floats:
    """Normal numbers, the same for the same seed."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def whole(seed: int, *shape: int) -> Floats:
    """Small whole numbers: every product and sum is exact, and many logits are equal."""
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float32)


@dataclass
class MadeArtifacts:
    """`output_layers.registry.Artifacts` of drawn sets; with `full` sets of all tokens.

    The residual mass of the screen is often far too small, and often far too large.
    """

    weight: Floats
    bias: Floats
    seed: int = 0
    full: bool = False
    fallback: bool = True
    tested: bool = False  # whether the shortlist has a fallback test

    def read(self, name: str) -> Any:
        """The artifact by its name: one of those below, or one that is fitted to hidden vectors alone."""
        own = getattr(self, name, None)
        if own is not None:
            return own()
        return getattr(import_module(f"sharpbeam.fit.{MODULES[name]}"), f"find_{name}")(
            self.weight, self.bias, self._samples()
        )

    def has(self, name: str) -> bool:
        """All of them, but for the test of a shortlist."""
        return name != "shortlist_test" or self.tested

    def screen(self) -> Screens:
        """One screen of a few clusters."""
        vocab, dim = self.weight.shape
        sets = self._sets(CLUSTERS, vocab, vocab // 2)
        start = np.cumsum([0, *map(len, sets)]).astype(np.int32)
        clusters = normal(self.seed + 1, CLUSTERS, dim), normal(self.seed + 2, CLUSTERS)
        mass = ResidualMass(normal(self.seed + 3, CLUSTERS, 2, dim), normal(self.seed + 4, CLUSTERS, 2) * 3)
        screen = Screen(*clusters, start, np.concatenate(sets), mass)
        if not self.fallback:
            return Screens("all", {"": screen})
        test = FallbackTest(np.zeros((CLUSTERS, dim), np.float32), min(2, vocab), 3.0, 0.5, 0.5, -np.sqrt(dim) / 2)
        return Screens("all", {"": replace(screen, fallback=test)})

    def shortlist(self) -> Shortlist:
        """A shortlist with lists of random lengths, some of them empty."""
        vocab = len(self.weight)
        draw = np.random.default_rng(self.seed + 5)
        lists = [draw.permutation(vocab)[: draw.integers(0, vocab // 4 + 1)] for _ in range(SOURCES)]
        start = np.cumsum([0, *map(len, lists)]).astype(np.int32)
        always = np.arange(vocab) if self.full else np.sort(draw.permutation(vocab)[:2])
        return Shortlist(always.astype(np.int32), start, np.concatenate(lists).astype(np.int32))

    def shortlist_test(self) -> ShortlistTest:
        """A test that is sure of no row: it predicts more than all tokens can have. With `full`, of every row."""
        dim = self.weight.shape[1]
        if self.full:
            never = np.array([[0, 0, -1e4], [0, 0, 0]], np.float32)
            units = normal(0, 1, dim), np.zeros(1, np.float32), np.zeros((2, 1), np.float32)
            return ShortlistTest(*units, never, 0.0, 1.0, 0.99999)
        largest = np.abs(self.weight).max(axis=0)
        inner = np.concatenate([np.diag(largest), -np.diag(largest)])  # |h| |w| >= h w, coordinate by coordinate
        outer = np.zeros((2, 2 * dim), np.float32)
        outer[0] = 1
        most = float(self.bias.max()) + np.log(len(self.bias))
        direct = np.array([[0, 0, most], [0, 0, 0]], np.float32)
        return ShortlistTest(inner.astype(np.float32), np.zeros(2 * dim, np.float32), outer, direct, 0.0, 1.0, 0.99999)

    def _sets(self, count: int, vocab: int, most: int) -> list[Ids]:
        draw = np.random.default_rng(self.seed + 6)
        sizes = np.full(count, vocab) if self.full else draw.integers(1, most + 2, count)
        return [np.sort(draw.permutation(vocab)[:size]).astype(np.int32) for size in sizes]

    def _samples(self) -> Floats:
        return normal(self.seed + 7, 300, self.weight.shape[1])


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "preview proven": ("preview", {"fidelity": 1.0}),
    "screen alone": ("screen", {"screen_sets": "alone"}),
    "screen union": ("screen", {"screen_sets": "union"}),
    "shortlist tested": ("shortlist", {}),
}
"""Forms of a layer that options or artifacts choose, by a name for tests."""


def build_layer(name: str, artifacts: MadeArtifacts, isa: str = "auto") -> OutputLayer:
    """The registered layer `name`, or one of VARIANTS, for the weights of `artifacts`."""
    built: dict[str, OutputLayer] = {}
    own, names = VARIANTS.get(name, (name, {}))
    if name == "shortlist tested":
        artifacts = replace_kept(artifacts, tested=True)

    def layer(other: str, options: OutputLayerOptions = OutputLayerOptions()) -> OutputLayer:  # noqa: B008 (frozen)
        if other not in built:
            inputs = LayerInputs(artifacts.weight, artifacts.bias, artifacts, Path(), layer, isa, options)
            built[other] = find_output_layer(other).build(inputs)
        return built[other]

    return layer(own, OutputLayerOptions(own, **names))


def replace_kept(artifacts: MadeArtifacts, **changes: Any) -> MadeArtifacts:
    """A copy with changes, and with what a test put in the place of its methods."""
    made = copy(artifacts)
    made.__dict__.update(changes)
    return made


def made_requests(count: int, seed: int = 8) -> list[Request]:
    """Requests 0, 3, 6, ... with sources that the shortlist knows."""
    draw = np.random.default_rng(seed)
    return [Request(3 * i, draw.integers(0, SOURCES, draw.integers(1, 6)).astype(np.int32)) for i in range(count)]


def opened(layer: OutputLayer, requests: Sequence[Request]) -> OutputLayerRun:
    """A run of `layer` with `requests` in flight."""
    run = layer.open()
    run.admit(requests)
    return run
