"""Replace the output layer of a PyTorch model of your own: fit a screen once, then ask for the k best tokens.

The model here is synthetic: hidden vectors in clusters, as those of trained models are. Take yours instead.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch

from sharpbeam import Head, fit_head
from sharpbeam.fit.progress import FitProgress
from sharpbeam.options.fit import ScreenOptions


def hidden_vectors(count: int, width: int, generator: torch.Generator) -> torch.Tensor:
    """Vectors [count, width] around fifty centers."""
    centers = torch.randn(50, width, generator=torch.Generator().manual_seed(7))
    center = torch.randint(50, (count,), generator=generator)
    return centers[center] + 0.15 * torch.randn(count, width, generator=generator)


def show_notes(report: FitProgress) -> None:
    """Print the lines worth keeping of a running fit."""
    if report.note:
        print(report.note)


def compare(folder: Path, tokens: int = 20_000, width: int = 256, seen: int = 40_000) -> tuple[float, float]:
    """The share of vectors whose five best tokens are those of PyTorch, and how many times faster they are found."""
    generator = torch.Generator().manual_seed(1)
    output = torch.nn.Linear(width, tokens)
    torch.nn.init.normal_(output.weight, generator=generator)
    weight, bias = output.weight.detach(), output.bias.detach()
    options = ScreenOptions(method="kmeans", clusters=50, fidelity=0.99)
    fit_head(folder, weight, bias, hidden_vectors(seen, width, generator), options=options, progress=show_notes)
    head = Head.load(folder)
    fresh = hidden_vectors(200, width, generator)
    began = time.perf_counter()
    expected = [torch.log_softmax(output(row), -1).topk(5).indices.tolist() for row in fresh]
    middle = time.perf_counter()
    results = [head.topk(row[None], 5).token[0].tolist() for row in fresh]
    ended = time.perf_counter()
    same = sum(map(list.__eq__, expected, results)) / len(fresh)
    return same, (middle - began) / (ended - middle)


if __name__ == "__main__":
    torch.set_num_threads(1)
    with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
        same, faster = compare(Path(sys.argv[1] if len(sys.argv) > 1 else folder))
    print(f"{same:.1%} of the answers are PyTorch's, {faster:.0f} times as fast")
