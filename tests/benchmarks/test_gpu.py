"""The benchmarks of GPUs: without one they say so, and run in small on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from bench.gpu import end_to_end, output_layers
from bench.papers.stream.stream import Contender
from sharpbeam import Translator
from sharpbeam.errors import SharpbeamError


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
@pytest.mark.parametrize("run", [output_layers.main, end_to_end.main])
def test_without_a_gpu_they_say_so(run) -> None:
    with pytest.raises(SharpbeamError, match="no GPU here"):
        run(device="cuda")


def test_output_layers_are_checked_and_timed_in_small() -> None:
    line = output_layers.measure(300, 5, 24, 4, 0.05, 1, 1, torch.device("cpu"))
    assert line["contenders"].keys() == {"pytorch", "fused", "union"}
    assert 0.0 < line["union_share"] < 0.5


def test_a_wrong_logit_is_found_out() -> None:
    weight, bias, hidden = torch.eye(4), torch.zeros(4), torch.ones(1, 4)
    best = output_layers.Best(torch.tensor([[2.0]]), torch.tensor([[1]]), torch.tensor([3.0]))
    with pytest.raises(ValueError, match="fused: a logit is"):
        output_layers.check({"fused": best, "pytorch": best}, weight, bias, hidden)


def test_whole_translations_are_compared_in_small(make_transformer: Callable[..., Path], sentences: list[str]) -> None:
    translator, texts = Translator(make_transformer(), device="torch-cpu"), sentences[:4]
    assert end_to_end.layers(translator) == ["exact"] and end_to_end.kind_of(translator) == "dense"
    options = {"beam_size": 2, "max_length": 12}
    runs = {f"{n} at once": Contender(translator, texts, options, n) for n in (1, 3)}
    contenders = end_to_end.compared(runs, "1 at once", texts, 1)["contenders"]
    assert all(one["same"] == 1.0 and one["tokens_s"] > 0 for one in contenders.values())
