"""Fits of previews: what they are measured to gain, and the text that they read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sharpbeam.decoding.loading import WORTH_IT, LoadedModel, find_model, load_model
from sharpbeam.errors import OptionError
from sharpbeam.fit.preview import fit_preview, worth_fitting
from sharpbeam.fit.texts import sample_of
from sharpbeam.options.decode import DecodeOptions, MachineOptions, OutputLayerOptions
from sharpbeam.storage import artifacts
from sharpbeam.text.sample import crossed, sample


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = Path(shutil.copytree(find_model("de-en"), tmp_path_factory.mktemp("report") / "de-en"))
    text = folder.parent / "text"
    text.write_text("\n".join(sample("de")), encoding="utf-8")
    fit_preview(folder, text, vectors=400)
    return load_model(folder, MachineOptions(exact=True, threads=1))


def test_a_fidelity_below_1_is_measured_and_1_is_the_scan(model):
    preview = model.layer_named("preview")
    assert model.layer_named("preview", OutputLayerOptions("preview", fidelity=0.99)).native is not preview.native
    assert model.layer_named("preview", OutputLayerOptions("preview", fidelity=1.0)) is model.layer_named("scan")
    with pytest.raises(OptionError, match="was measured to have at least 0"):
        model.layer_named("preview", OutputLayerOptions("preview", fidelity=0.99999))


def test_auto_takes_the_preview_where_it_gains(model, monkeypatch):
    monkeypatch.delenv("SHARPBEAM_EXACT", raising=False)
    folder, gains = model.folder, model.artifacts.facts("preview")["gains"]
    assert set(gains) <= {"greedy", "scores", "beam"} and gains["greedy"] > 0 and gains["scores"] > 0
    machine = MachineOptions(compute_type="float32", threads=1)
    for beam_size, scores, name in ((1, False, "greedy"), (1, True, "scores"), (5, False, "beam")):
        options = DecodeOptions.of(beam_size=beam_size, return_scores=scores)  # whatever the model's own is
        expected = "preview" if gains.get(name, 0) > WORTH_IT[name] else "scan"
        assert load_model(folder, machine).layer_name(options) == expected
    assert worth_fitting(folder)


def test_the_matrix_is_hashed_once_a_load(model, monkeypatch):
    monkeypatch.delenv("SHARPBEAM_EXACT", raising=False)
    hashed = []
    digest = artifacts.output_digest
    monkeypatch.setattr(artifacts, "output_digest", lambda *arrays: hashed.append(1) or digest(*arrays))
    loaded = load_model(model.folder, MachineOptions(compute_type="float32", threads=1))
    loaded.layer_named("preview")
    assert len(hashed) == 1


def test_crossed_sentences_begin_as_one_and_end_as_another():
    assert crossed(["one two three", "four five", "你好吗吃"], 1) == [
        "one two three",
        "four five",
        "你好吗吃",
        "one two five",
        "four吗吃",
        "你好 three",
    ]


def test_without_text_the_sample_of_the_source_language_is_read(model, tmp_path):
    folder = Path(shutil.copytree(model.folder, tmp_path / "model"))
    assert sample_of(model) == sample("de") and len(sample("deu_Latn")) == 70 and sample("xx") == sample("en")
    fit = fit_preview(folder, vectors=300)
    assert fit.sample and "sample sentences" in fit.summary()
