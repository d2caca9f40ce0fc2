"""Comparison of two systems: figures, significance, options of models, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sharpbeam import Translator, compare
from sharpbeam.errors import InputError, OptionError

pytest.importorskip("sacrebleu")

WORDS = ["the", "a", "cat", "dog", "house", "garden", "sees", "finds", "in", "on", "with", "old", "red", "tree", "bird"]


def corpus(seed: int, sentences: int) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(5, 12))) for _ in range(sentences)]


def noisy(texts: list[str], share: float, seed: int) -> list[str]:
    """`texts` with a `share` of the words replaced."""
    draw = np.random.default_rng(seed)
    return [
        " ".join(str(draw.choice(WORDS)) if draw.random() < share else word for word in text.split()) for text in texts
    ]


def test_identical_outputs_are_counted_and_the_others_are_listed(tmp_path: Path) -> None:
    a, b = ["eins", "zwei", "drei"], ["eins", "2", "drei"]
    found = compare(a, b, ["one", "two", "three"])
    assert found.identical == 2 / 3 and found.differing == [1] and not found.scores
    found.write_differences(tmp_path / "differences")
    (line,) = (tmp_path / "differences").read_text().splitlines()
    assert json.loads(line) == {"line": 2, "source": "two", "a": "zwei", "b": "2"}
    assert "2 of 3 outputs are identical (66.67%)" in found.summary()
    assert compare(a, a).identical == 1


def test_scores_are_sacrebleus_and_a_worse_system_is_significantly_worse() -> None:
    import sacrebleu

    references = corpus(1, 200)
    good, bad = noisy(references, 0.1, 2), noisy(references, 0.25, 3)
    bleu, chrf = compare(good, bad, (), references, resamples=300).scores
    assert bleu.a == pytest.approx(sacrebleu.corpus_bleu(good, [references]).score)
    assert chrf.b == pytest.approx(sacrebleu.corpus_chrf(bad, [references]).score)
    assert bleu.p_value < 0.01 and chrf.p_value < 0.01
    assert 0 < bleu.a_interval < 10 and "bs:300" in bleu.signature
    other = noisy(references, 0.1, 4)  # as good, with other errors
    assert all(score.p_value > 0.01 for score in compare(good, other, (), references, resamples=300).scores)


def test_models_files_and_lists_are_compared(tiny_model: Path, sentences: list[str], tmp_path: Path) -> None:
    sources = sentences[:12]
    done: list[tuple[str, int]] = []
    options = f"{tiny_model},beam_size=2,max_length=9"
    found = compare(
        options, f"{options},output_layer=scan,compute_type=float32", sources, progress=lambda *seen: done.append(seen)
    )
    assert found.identical == 1 and found.names[0] == options
    assert sum(number for name, number in done if name == options) == len(sources)
    said = [t.text for t in Translator(tiny_model).translate(sources, beam_size=2, max_length=9)]
    assert found.a == said
    outputs = tmp_path / "outputs"
    outputs.write_text("".join(f"{text}\n" for text in said))
    assert compare(outputs, said, sources).identical == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("beam_sise=2", "unknown option 'beam_sise'"),
        ("beam_size=x", "beam_size is 'x'"),
        ("scan", "options are given as MODEL,NAME=VALUE"),
        ("threads=-1", "threads is -1"),
    ],
)
def test_options_of_a_model_are_checked(tiny_model: Path, options: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        compare(f"{tiny_model},{options}", ["x"], ["Bade ki."])


def test_what_cannot_be_compared(tiny_model: Path) -> None:
    with pytest.raises(InputError, match="the numbers of lines are A 1, B 2"):
        compare(["a"], ["a", "b"])
    with pytest.raises(InputError, match="sources 2, A 1, B 1"):
        compare(["a"], ["a"], ["x", "y"])
    with pytest.raises(InputError, match="A 0, B 0"):
        compare([], [])
    with pytest.raises(OptionError, match="is a model, which needs sources"):
        compare(str(tiny_model), ["a"])
