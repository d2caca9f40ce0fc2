"""examples/own_output_layer.py: a layer from outside of the package, a choice wherever there is one."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sharpbeam import Head, OptionError, Translator, register_output_layer
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.output_layers import registry

EXAMPLE = Path(__file__).parents[2] / "examples/own_output_layer.py"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The example; what it registers is forgotten after the test."""
    monkeypatch.setattr(registry, "_LAYERS", dict(registry._LAYERS))
    return runpy.run_path(str(EXAMPLE))


def test_a_registered_layer_is_a_choice(example: dict[str, Any], tiny_model: Path, sentences: list[str]) -> None:
    """The preview has all of the tiny model's coordinates, so that the answers are those of the exact layer."""
    translator = Translator(tiny_model)
    for options in ({"beam_size": 1}, {"beam_size": 3, "num_hypotheses": 2}, {"beam_size": 3, "normalize": True}):
        options |= {"return_scores": True}
        exact = translator.translate(sentences[:6], max_length=12, **options)
        own = translator.translate(sentences[:6], max_length=12, **options, output_layer="svd")
        assert [t.text for t in own] == [t.text for t in exact]
        assert [t.score for t in own] == pytest.approx([t.score for t in exact], abs=1e-4)
    scored = translator.score(sentences[:3], [t.text for t in exact[:3]], output_layer="svd")
    expected = translator.score(sentences[:3], [t.text for t in exact[:3]])
    assert [t.score for t in scored] == pytest.approx([t.score for t in expected], abs=1e-4)
    assert "svd" in str(DecodeOptions.of(output_layer="svd"))
    with pytest.raises(OptionError, match="normalize is False; it must be true with output_layer svd"):
        translator.translate(sentences[:1], output_layer="svd", normalize=False)


def test_it_serves_a_foreign_output_matrix(example: dict[str, Any]) -> None:
    draw = np.random.default_rng(1)
    weight, hidden = draw.normal(size=(900, 20)), draw.normal(size=(5, 20))
    own, exact = Head(weight, output_layer="svd"), Head(weight, output_layer="exact")
    assert own.topk(hidden, 5).token.tolist() == exact.topk(hidden, 5).token.tolist()
    assert own.log_prob(hidden, np.arange(5)) == pytest.approx(exact.log_prob(hidden, np.arange(5)), abs=1e-4)


def test_few_exact_logits_are_not_the_exact_layer(example: dict[str, Any]) -> None:
    """The parity above is no accident of a tiny model."""
    draw = np.random.default_rng(2)
    weight, hidden = (draw.normal(size=shape).astype(np.float32) for shape in ((500, 40), (20, 40)))
    bias = np.zeros(500, np.float32)
    own, whole = (example["SvdSoftmax"](weight, bias, rank, 20) for rank in (4, 40))
    result, expected = own.topk(hidden, 5), whole.topk(hidden, 5)
    assert (result.token != expected.token).any()
    assert own.topk(hidden[:0], 5).token.shape == (0, 5)


def test_names_are_checked(example: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match="name is 'svd'; it must be another: there is"):
        register_output_layer("svd", lambda inputs: inputs.layer("exact"))
    with pytest.raises(OptionError, match=r"name is 'a b'; it must be letters, digits, - and _, and begin with"):
        register_output_layer("a b", lambda inputs: inputs.layer("exact"))
    with pytest.raises(OptionError, match=r"output_layer is 'svg'; it must be auto, exact, .*scan, .* or svd"):
        DecodeOptions.of(output_layer="svg")


def test_the_example_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(registry, "_LAYERS", dict(registry._LAYERS))
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    exact, own = (line.split(": ", 1) for line in capsys.readouterr().out.splitlines())
    assert (exact[0], own[0]) == ("exact", "svd") and exact[1] == own[1]
