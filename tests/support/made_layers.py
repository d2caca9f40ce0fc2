"""Every registered output layer, built from drawn weights and artifacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from sharpbeam.fit.low_bit import fit_low_bit
from sharpbeam.output_layers.fitted import FallbackTest, Net, ResidualMass, Screen, Screens, Shortlist
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun
from sharpbeam.output_layers.proven import LowBit
from sharpbeam.output_layers.registry import LayerInputs, find_output_layer
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
    _low_bit: LowBit | None = field(default=None, init=False)

    def low_bit(self) -> LowBit:
        """A low-bit preview, fitted on noise."""
        self._low_bit = self._low_bit or fit_low_bit(self.weight, self.bias, self._samples())
        return self._low_bit

    def screens(self) -> Screens:
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

    def net(self) -> Net:
        """A net that is sure of no row: it predicts more than all tokens can have. With `full`, it is of every row."""
        dim = self.weight.shape[1]
        if self.full:
            never = np.array([[0, 0, -1e4], [0, 0, 0]], np.float32)
            return Net(normal(0, 1, dim), np.zeros(1, np.float32), np.zeros((2, 1), np.float32), never, 0.0, 1.0)
        largest = np.abs(self.weight).max(axis=0)
        inner = np.concatenate([np.diag(largest), -np.diag(largest)])  # |h| |w| >= h w, coordinate by coordinate
        outer = np.zeros((2, 2 * dim), np.float32)
        outer[0] = 1
        most = float(self.bias.max()) + np.log(len(self.bias))
        direct = np.array([[0, 0, most], [0, 0, 0]], np.float32)
        return Net(inner.astype(np.float32), np.zeros(2 * dim, np.float32), outer, direct, 0.0, 1.0)

    def _sets(self, count: int, vocab: int, most: int) -> list[Ids]:
        draw = np.random.default_rng(self.seed + 6)
        sizes = np.full(count, vocab) if self.full else draw.integers(1, most + 2, count)
        return [np.sort(draw.permutation(vocab)[:size]).astype(np.int32) for size in sizes]

    def _samples(self) -> Floats:
        return normal(self.seed + 7, 300, self.weight.shape[1])


def build_layer(name: str, artifacts: MadeArtifacts, isa: str = "auto") -> OutputLayer:
    """The registered layer `name` for the weights of `artifacts`."""
    built: dict[str, OutputLayer] = {}

    def layer(other: str) -> OutputLayer:
        if other not in built:
            given = LayerInputs(artifacts.weight, artifacts.bias, artifacts, Path(), layer, "native", isa)
            built[other] = find_output_layer(other).build(given)
        return built[other]

    return layer(name)


def made_requests(count: int, seed: int = 8) -> list[Request]:
    """Requests 0, 3, 6, ... with sources that the shortlist knows."""
    draw = np.random.default_rng(seed)
    return [Request(3 * i, draw.integers(0, SOURCES, draw.integers(1, 6)).astype(np.int32)) for i in range(count)]


def opened(layer: OutputLayer, requests: Sequence[Request]) -> OutputLayerRun:
    """A run of `layer` with `requests` in flight."""
    run = layer.open()
    run.admit(requests)
    return run
