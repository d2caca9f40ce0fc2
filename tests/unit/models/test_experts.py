"""Mixtures of experts: routing as it is written in the paper, and nothing dropped, in the core and in PyTorch."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sharpbeam.models.native import NativeModel
from sharpbeam.models.transformer.config import TransformerConfig

torch = pytest.importorskip("torch")

from support.torch_model import TorchModel  # noqa: E402

from sharpbeam.models.transformer.module import mixture, route  # noqa: E402

CONFIG = TransformerConfig(
    31,
    37,
    hidden_dim=24,
    encoder_layers=2,
    decoder_layers=1,
    encoder_heads=3,
    decoder_heads=2,
    encoder_ffn_dim=19,
    decoder_ffn_dim=33,
    experts=32,
    encoder_expert_step=2,
    decoder_expert_step=1,
)
TOLERANCE = 1e-5


@pytest.mark.parametrize("normalized", [True, False])
def test_two_experts_answer_for_each_position_times_their_gates(normalized):
    """Against loops over positions and experts, in the order of neither."""
    draw = torch.Generator().manual_seed(3)
    logits, x = torch.randn(40, 5, generator=draw), torch.randn(40, 7, generator=draw)
    weights = torch.randn(5, 7, 7, generator=draw)
    result = mixture(x, route(logits, normalized), lambda expert, some: some @ weights[expert])
    for n in range(40):
        share = np.exp(logits[n].double().numpy())
        share /= share.sum()
        best, second = np.argsort(-share)[:2]
        total = share[best] + share[second] if normalized else 1.0
        expected = sum(share[e] / total * (x[n] @ weights[e]).numpy() for e in (best, second))
        assert np.allclose(result[n], expected, atol=1e-5)


def test_equal_scores_go_to_the_lower_number():
    routing = route(torch.tensor([[1.0, 2.0, 2.0, 2.0], [0.0, 0.0, 0.0, 0.0], [5.0, 1.0, 4.0, 4.0]]), True)
    assert routing.expert.tolist() == [[1, 2], [0, 1], [0, 2]]


def test_the_balance_loss_is_1_for_even_use_and_the_number_of_experts_for_one_alone():
    even, alone = 20.0 * torch.eye(4), 20.0 * torch.eye(4)[[2, 2, 2, 2]]
    assert float(route(even, True).balance) == pytest.approx(1.0, abs=1e-6)
    assert float(route(alone, True).balance) == pytest.approx(4.0, abs=1e-6)


def test_positions_that_all_choose_the_same_experts_are_all_answered(make_tensors, walk, isa):
    """A router of zeros scores all alike, so that the lower two take everything: no expert has a limit."""
    path = walk(CONFIG, lengths=(200, 7, 60), beam=40)  # more rows than a block of the core
    tensors = make_tensors(CONFIG)
    tensors |= {name: np.zeros_like(tensors[name]) for name in tensors if "router" in name}
    native, pytorch = (
        path.run(model.open()) for model in (NativeModel(CONFIG, tensors, isa), TorchModel(CONFIG, tensors))
    )
    assert np.abs(native - pytorch).max() < TOLERANCE


def test_a_wrong_choice_or_gate_is_found_out(make_tensors, walk):
    """Two experts exchanged, and gates that sum to 1 where they should not."""
    tensors, path = make_tensors(CONFIG), walk(CONFIG)
    truth = path.run(TorchModel(CONFIG, tensors).open())
    assert np.abs(path.run(NativeModel(CONFIG, tensors).open()) - truth).max() < TOLERANCE
    for name, size in (("encoder.1.ffn.router.weight", 1), ("decoder.0.ffn.down.weight", CONFIG.hidden_dim)):
        parts = np.split(tensors[name], len(tensors[name]) // size)
        turned = tensors | {name: np.concatenate(parts[1:] + parts[:1])}
        assert np.abs(path.run(NativeModel(CONFIG, turned).open()) - truth).max() > 100 * TOLERANCE
    other = dataclasses.replace(CONFIG, normalized_gates=False)
    assert np.abs(path.run(NativeModel(other, tensors).open()) - truth).max() > 100 * TOLERANCE


def test_many_experts_are_chosen_in_these_tests(make_tensors, walk):
    """Or one that is broken would not be seen: the weights of many change an answer."""
    tensors, path = make_tensors(CONFIG), walk(CONFIG, lengths=(60, 60, 60), beam=4, steps=1)
    truth, dim, seen = path.run(NativeModel(CONFIG, tensors).open()), CONFIG.hidden_dim, 0
    for expert in range(CONFIG.experts):
        down = tensors["encoder.1.ffn.down.weight"].copy()
        down[expert * dim : (expert + 1) * dim] *= 1.5
        changed = path.run(NativeModel(CONFIG, tensors | {"encoder.1.ffn.down.weight": down}).open())
        seen += not np.array_equal(changed, truth)  # no tolerance: one position among sixty shows little
    assert seen >= 12
