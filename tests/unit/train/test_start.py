"""Fine-tuning: a run that begins with a model folder."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
import safetensors.numpy

torch = pytest.importorskip("torch")

from support.foreign import demo_sentences, train_pieces  # noqa: E402

from sharpbeam.errors import ModelError, OptionError  # noqa: E402
from sharpbeam.text.pieces import PieceVocabulary  # noqa: E402
from sharpbeam.train.vocabularies import SPECIAL_IDS  # noqa: E402


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of the run whose model the others begin with, once it has been trained."""
    return tmp_path_factory.mktemp("trained") / "before"


@pytest.fixture
def before(trained, recipe, train, toy, losses):
    """The metrics of that run."""
    if not trained.exists():
        train(recipe, "before", dropout=0.0)
        shutil.copytree(toy / "before", trained)
    shutil.copytree(trained, toy / "before", dirs_exist_ok=True)
    return [line for line in losses(trained) if "nll" in line]


@pytest.fixture
def again(recipe):
    """A recipe with other words in its vocabulary options: the model's own vocabulary has to be taken."""
    return dataclasses.replace(recipe, data=dataclasses.replace(recipe.data, max_length=9))


def test_a_run_goes_on_from_the_weights_and_vocabularies_of_a_model(before, again, train, toy):
    lines = train(again, "after", start="before/best", dropout=0.0, warmup_steps=0, learning_rate=1e-3, seed=9)
    assert lines[0]["nll"] < 0.5 * before[0]["nll"]
    assert (toy / "after/source.spm").read_bytes() == (toy / "before/best/source.spm").read_bytes()


def test_a_killed_run_goes_on_from_its_checkpoint_not_from_the_start(before, recipe, train, losses, toy):
    options = {"start": "before/best", "schedule": "constant"}
    train(recipe, "whole", **options)
    train(recipe, "parts", **options, max_steps=20)
    train(recipe, "parts", **options)
    whole, parts = ({m["step"]: m["loss"] for m in losses(toy / name) if "loss" in m} for name in ("whole", "parts"))
    assert len(whole) == 20
    assert whole == parts


def test_self_normalization_begins_with_a_log_z_near_zero(before, recipe, train):
    options = {"start": "before/best", "dropout": 0.0, "warmup_steps": 0, "learning_rate": 1e-5}
    plain = train(recipe, "plain", **options)[0]["mean_square_log_z"]
    centered = train(recipe, "centred", **options, self_normalization=0.5)[0]
    assert centered["mean_square_log_z"] < 0.2 * plain
    assert centered["nll"] == pytest.approx(train(recipe, "plain2", **options)[0]["nll"], rel=0.02)


def test_a_model_with_other_facts_or_none_is_refused(before, recipe, train):
    other = dataclasses.replace(recipe, model=recipe.model | {"decoder_dim": 20})
    with pytest.raises(OptionError, match=r"train\.start is .*before/best"):
        train(other, "other", start="before/best")
    with pytest.raises(ModelError, match="no model folder"):
        train(recipe, "nothing", start="nowhere")


def test_a_model_with_other_special_tokens_is_refused(before, recipe, train, toy):
    other = dataclasses.replace(recipe, model=recipe.model | {"eos_id": 4})
    with pytest.raises(OptionError, match=r"model\.eos_id is 4; it must be 2, as training has it"):
        train(other, "other")
    best = toy / "before/best"
    (best / "target.pieces.json").write_bytes(PieceVocabulary("abcd", SPECIAL_IDS, (), None).listed)
    with pytest.raises(OptionError, match=r"before/best, which has target\.pieces\.json"):
        train(recipe, "listed", start="before/best")
    (best / "target.pieces.json").unlink()
    pieces = train_pieces(demo_sentences(), 100, unk_id=1, eos_id=0, bos_id=-1, pad_id=-1)
    (best / "source.spm").write_bytes(pieces)
    with pytest.raises(OptionError, match=r"which has \{'unk_id': 1, 'eos_id': 0\}; it must .* sharpbeam distil"):
        train(recipe, "foreign", start="before/best")
    assert not (toy / "foreign/source.spm").exists()


@pytest.mark.parametrize(
    ("options", "needed"), [({"shared": False}, "and target.spm"), ({"kind": "words"}, "vocab.json")]
)
def test_a_model_with_other_vocabularies_is_refused(before, recipe, train, options, needed):
    other = dataclasses.replace(recipe, vocabulary=dataclasses.replace(recipe.vocabulary, **options))
    with pytest.raises(OptionError, match=rf"before/best, with source\.spm; the table \[vocabulary\] .*{needed}\."):
        train(other, "other", start="before/best")


def test_languages_without_a_tag_in_the_vocabulary_are_refused(before, recipe, train):
    data = dataclasses.replace(recipe.data, languages=("aa-bb",))
    made = dataclasses.replace(recipe, data=data, model={"architecture": "transformer", "hidden_dim": 16})
    with pytest.raises(OptionError, match=r"data\.languages is .*bb.* vocabulary has, not <2aa> <2bb>; without"):
        train(made, "languages", start="before/best", start_matching=True)


def test_the_tensors_that_fit_another_model_are_taken_and_the_others_begin_fresh(before, recipe, train, toy):
    other = dataclasses.replace(recipe, model=recipe.model | {"decoder_cell": "attentional"})
    train(other, "other", start="before/best", start_matching=True, learning_rate=1e-9, average_decay=0.0, max_steps=1)
    models = [safetensors.numpy.load_file(toy / name / "best/model.safetensors") for name in ("before", "other")]
    same = {
        name
        for name, tensor in models[1].items()
        if tensor.shape == models[0].get(name, np.empty(0)).shape and np.allclose(tensor, models[0][name], atol=1e-3)
    }
    assert {"target_embedding", "encoder.0.forwards.input_weight", "decoder.first.hidden_weight"} <= same
    assert "decoder.first.input_weight" in models[1].keys() - same  # its word and context stand side by side


def test_start_matching_needs_a_start(recipe, train):
    with pytest.raises(OptionError, match="start_matching"):
        train(recipe, "none", start_matching=True)
