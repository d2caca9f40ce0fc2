"""The LSTM with attention from the recipe to the answer: two vocabularies, a sampled softmax, translations."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from support.torch_model import torch_translator  # noqa: E402

from sharpbeam.api.translator import Translator  # noqa: E402
from sharpbeam.errors import OptionError  # noqa: E402
from sharpbeam.options.train import VocabularyOptions  # noqa: E402

FACTS = {"architecture": "lstm-attention", "embedding_dim": 16, "hidden_dim": 24}
TEXTS = ["ba ce di", "lo mu", "gu ha je ki"]


@pytest.fixture
def lstm(recipe):
    """The toy recipe with the LSTM, and vocabularies of two sizes."""
    return dataclasses.replace(recipe, model=FACTS, vocabulary=VocabularyOptions(size=24, shared=False, target_size=26))


def test_it_learns_and_its_folder_translates_the_same_as_pytorch(lstm, train, toy):
    lines = [
        line
        for line in train(
            lstm, "run", max_steps=100, label_smoothing=0.0, dropout=0.0, average_decay=0.0, validate_every=100
        )
        if "nll" in line
    ]
    assert lines[-1]["nll"] < 0.75 * lines[0]["nll"]
    folder = toy / "run/best"
    assert (folder / "target.spm").read_bytes() != (folder / "source.spm").read_bytes()
    native, pytorch = (made.translate(TEXTS) for made in (Translator(folder), torch_translator(folder)))
    assert [a.text for a in native] == [b.text for b in pytorch]
    assert any(a.text for a in native)
    for a, b in zip(native, pytorch, strict=True):
        assert a.score == pytest.approx(b.score, abs=1e-4)


def test_a_killed_run_goes_on_with_the_same_losses(lstm, train, losses, toy):
    options = {"output_samples": 8, "schedule": "constant", "max_steps": 20, "validate_every": 10}
    train(lstm, "whole", **options)
    train(lstm, "parts", **options | {"max_steps": 10})
    train(lstm, "parts", **options)
    whole, parts = ({m["step"]: m["loss"] for m in losses(toy / name) if "loss" in m} for name in ("whole", "parts"))
    assert len(whole) == 6
    assert whole == parts


def test_a_size_of_the_target_vocabulary_needs_two_vocabularies():
    with pytest.raises(OptionError, match=r"vocabulary\.target_size is 26; .*not shared"):
        VocabularyOptions(target_size=26)


def test_words_between_spaces_can_be_the_vocabulary(lstm, train, toy):
    words = VocabularyOptions(kind="words", size=100, shared=False, least_count=2)
    train(dataclasses.replace(lstm, vocabulary=words), "words", max_steps=14)
    translator = Translator(toy / "words/best")
    training_words = set((toy / "train.tsv").read_text().split())
    assert {translator.loaded.target.piece(i) for i in range(4, len(translator.loaded.target))} == training_words
    assert {path.name for path in (toy / "words/best").iterdir()} >= {"source.vocab.json", "target.vocab.json"}
    assert set(translator.translate(["ba ce"])[0].text.split()) <= {*training_words, "<unk>"}
    with pytest.raises(OptionError, match=r"vocabulary.size is 9, but .*source.vocab.json .* has 14 words"):
        train(dataclasses.replace(lstm, vocabulary=dataclasses.replace(words, size=9)), "words", max_steps=28)
    with pytest.raises(OptionError, match=r"least_count is 2; it must be 1, or more with kind words"):
        VocabularyOptions(least_count=2)
