"""Muon: PyTorch's in bfloat16, and what it approximates in float32."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from sharpbeam.train.muon import Muon, orthogonal  # noqa: E402

SHAPES = [(16, 48), (48, 16), (20, 20)]


def stepped(make, shape, steps=3):
    """A matrix after some steps along random gradients."""
    generator = torch.Generator().manual_seed(1)
    matrix = torch.nn.Parameter(torch.randn(shape, generator=generator))
    optimizer = make([matrix])
    optimizer.param_groups[0]["lr"] = 0.01
    for _ in range(steps):
        matrix.grad = torch.randn(shape, generator=generator)
        optimizer.step()
    return matrix.detach()


@pytest.mark.parametrize("shape", SHAPES)
def test_steps_are_pytorchs_and_in_float32_near_them(shape):
    theirs = stepped(lambda p: torch.optim.Muon(p, 0.01, weight_decay=0.0, adjust_lr_fn="match_rms_adamw"), shape)
    assert torch.equal(stepped(lambda p: Muon(p, torch.bfloat16), shape), theirs)
    far, step = (stepped(lambda p: Muon(p, torch.float32), shape, n) - theirs for n in (3, 2))
    assert 0 < far.abs().max() < 0.05 * step.abs().max()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_step_keeps_singular_vectors_and_levels_their_values(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    values = left.T @ orthogonal(matrix) @ right.T
    assert (values - torch.diag(values.diag())).abs().max() < 1e-4
    assert values.diag().min() > 0.6 and values.diag().max() < 1.25
