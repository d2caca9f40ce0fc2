"""examples/own_model.py: a user's model by the model interface, searched as any other."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest
from reference.beam import reference_search

from sharpbeam.options.decode import SearchOptions

torch = pytest.importorskip("torch")
pytest.importorskip("sharpbeam._core", reason="the native core is not built")

EXAMPLE = Path(__file__).parents[2] / "examples/own_model.py"


def test_the_answers_are_those_of_the_reference_search() -> None:
    example = runpy.run_path(str(EXAMPLE))
    torch.manual_seed(1)
    model = example["OwnModel"]()
    model.embed.weight.data *= 4  # so that the answers depend on the source
    model.out.weight.data *= 5
    sources = [[3, 4, 5], [6, 7], [8, 9, 10, 11], [3], [11, 3]]
    results = example["search"](model, sources, beam_size=3)
    assert results.keys() == set(range(5)) and len(set(results.values())) > 1
    options = SearchOptions(beam_size=3, max_length=10, early_stopping="proven")
    for place, source in enumerate(sources):

        @torch.inference_mode()
        def next_log_probs(tokens: tuple[int, ...], source: list[int] = source) -> np.ndarray:
            state = model.reader(model.embed(torch.tensor([*source, model.eos_id])))[1][0][None]
            for token in (model.bos_id, *tokens):
                state = model.writer(model.embed(torch.tensor([token])), state)
            return model.out(state)[0].log_softmax(-1).numpy()

        (expected,) = reference_search(next_log_probs, options, model.eos_id)
        assert results[place] == tuple(token for token in expected.tokens if token != model.eos_id)
        assert example["search"](model, [source], beam_size=3)[0] == results[place]


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert len(capsys.readouterr().out.splitlines()) == 3
