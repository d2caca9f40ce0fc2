"""Every output layer that is compared: the methods of paper L2S and of today with their dials, and our own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bench.baselines.adaptive_softmax import AdaptiveSoftmaxLayer
from bench.baselines.faiss_ivf import FaissIvfLayer
from bench.baselines.fgd import FgdLayer
from bench.baselines.full_softmax import FullSoftmaxLayer
from bench.baselines.greedy_mips import GreedyMipsLayer
from bench.baselines.pca_tree import PcaTreeLayer
from bench.baselines.scann_tree import ScannLayer
from bench.baselines.simple_lsh import SimpleLshLayer
from bench.baselines.svd_softmax import SvdSoftmaxLayer
from bench.harness.vectors import K, Layer
from bench.papers.l2s.screens import Fit
from sharpbeam.errors import SharpbeamError
from sharpbeam.fit.preview import find_preview
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.preview import PreviewLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.output_layers.screen import Screen, ScreenLayer
from sharpbeam.types import Floats, TopK

HASHES = ((8, 16), (7, 16), (6, 8), (6, 16), (4, 4), (4, 16))  # bits and tables of LSH
BASELINE = "NumPy"  # the full softmax, as in the paper
CALL = "call alone"  # a screen of one cluster with K words: what a call costs that has next to nothing to do
PROVEN = ("exact", "scan", "proven")  # whose k best are the exact layer's, always
Dial = dict[str, int]


class TopKLayer(Protocol):
    """The subject of the measurement."""

    def topk(self, hidden: Floats, k: int) -> TopK:
        """As in `sharpbeam.output_layers.interface`."""


@dataclass(frozen=True)
class Contender:
    """A method at one setting of its dial."""

    method: str
    dial: dict[str, Any]
    layer: TopKLayer


def dials(vocab: int, width: int, quick: bool) -> dict[str, tuple[Any, list[Dial]]]:
    """Classes and dials of the methods of others, from little to much; quickly: every second setting."""
    few = min(8 * K, vocab)  # words that are rescored where a search gives them in order
    lists = max(1, round(vocab**0.5))
    probes = sorted({min(lists, p) for p in (4, 8, 16, 32, 64, 128)})
    ranks = sorted({max(1, round(width * share)) for share in (0.02, 0.05, 0.1, 0.2, 0.4)})
    heads = sorted({max(1, round(vocab * share)) for share in (0.02, 0.05, 0.1, 0.2, 0.4)})
    budgets = sorted({max(1, round(vocab * share)) for share in (0.005, 0.02, 0.1, 0.25, 0.5)})
    deepest = min(vocab.bit_length() - 1, width)
    links, built = (32, 200) if vocab <= 30_000 else (24, 100)  # a graph of more words would take minutes to build
    dialed: dict[str, tuple[Any, list[Dial]]] = {
        "SVD-softmax": (SvdSoftmaxLayer, [{"rank": r, "rescored": few * 5} for r in ranks]),
        "adaptive softmax": (AdaptiveSoftmaxLayer, [{"head": head} for head in heads]),
        "adaptive softmax, trained": (AdaptiveSoftmaxLayer, [{"head": head, "trained": True} for head in heads]),
        "FGD": (
            FgdLayer,
            [{"links": links, "built": built, "searched": few * s, "kept": few} for s in (1, 2, 3, 4, 5, 20)],
        ),
        "Greedy-MIPS": (GreedyMipsLayer, [{"budget": budget} for budget in budgets]),
        "PCA tree": (PcaTreeLayer, [{"depth": d} for d in (6, 4, 3, 2) if d <= deepest]),
        "LSH": (SimpleLshLayer, [{"bits": b, "tables": t} for b, t in HASHES]),
        "Faiss IVF": (FaissIvfLayer, [{"lists": lists, "probed": p, "kept": few} for p in probes]),
        "ScaNN": (
            ScannLayer,
            [{"leaves": lists, "probed": p, "kept": min(few * 2 * more, vocab)} for more in (1, 5, 25) for p in probes],
        ),
    }
    return {name: (method, settings[::-2][::-1] if quick else settings) for name, (method, settings) in dialed.items()}


SAMPLES = 2_000  # vectors that the methods of others are fitted on
PREVIEWED = 10_000  # vectors that the preview is fitted on
SHARING = (FgdLayer, GreedyMipsLayer, FaissIvfLayer, ScannLayer)  # one structure for every dial


def others(layer: Layer, quick: bool, only: list[str], say: Callable[[str], None]) -> list[Contender]:
    """The methods of others at each dial; one whose package is missing is named and left out."""
    contenders = []
    samples = layer.fit.hidden[:SAMPLES]
    for name, (method, settings) in dials(len(layer.weight), layer.weight.shape[1], quick).items():
        if only and name not in only:
            continue
        say(f"{layer.name}: building {name}")
        like: dict[str, Any] = {}
        try:
            for dial in settings:
                output_layer = method.build(layer.weight, layer.bias, samples, **dial, **like)
                like = {"like": output_layer} if method in SHARING else {}
                contenders.append(Contender(name, dial, output_layer))
        except SharpbeamError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return contenders


def own(layer: Layer, fits: list[Fit]) -> list[Contender]:
    """The baseline, our exact layers, and the screens that were fitted."""
    weight, bias = layer.weight, layer.bias
    preview = find_preview(weight, bias, layer.fit.hidden[:PREVIEWED])
    exact, scan = ExactLayer.build(weight, bias), ScanLayer.build(weight, bias)
    previewed = PreviewLayer.build(weight, bias, preview).unnormalized()
    contenders = [
        Contender(BASELINE, {}, FullSoftmaxLayer.build(weight, bias)),
        Contender("exact", {}, exact),
        Contender("scan", {}, scan),
        Contender("preview", {"codes": len(preview.lengths)}, previewed),
    ]
    few = Screen(np.zeros_like(weight[:1]), bias[:1], np.array([0, K], np.int32), np.arange(K, dtype=np.int32))
    contenders.append(Contender(CALL, {"clusters": 1, "set": K}, ScreenLayer.build(weight, bias, few)))
    screens = [Contender(fit.name, fit.dial, ScreenLayer.build(weight, bias, fit.screen, scan)) for fit in fits]
    return contenders + screens
