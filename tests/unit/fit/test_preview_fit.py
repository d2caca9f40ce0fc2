"""Fits of previews: what they are measured to gain, and the text that they read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sharpbeam.decoding.automatic import WORTH_IT
from sharpbeam.decoding.loading import LoadedModel, find_model, load_model
from sharpbeam.decoding.sample import sample_of
from sharpbeam.errors import InputError, OptionError
from sharpbeam.fit.collect import distinct_lines
from sharpbeam.fit.layer import fit_layer
from sharpbeam.fit.preview import FEWEST, fit_preview, worth_fitting
from sharpbeam.fit.texts import sentences_or_sample, texts_or_sample
from sharpbeam.options.decode import DecodeOptions, MachineOptions, OutputLayerOptions
from sharpbeam.report.facts import describe_model
from sharpbeam.storage import artifacts
from sharpbeam.storage.records import save_tuned
from sharpbeam.text.sample import crossed, languages_of, sample


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = Path(shutil.copytree(find_model("de-en"), tmp_path_factory.mktemp("report") / "de-en"))
    text = folder.parent / "text"
    text.write_text("\n".join(sample("de")), encoding="utf-8")
    fit_preview(folder, text, vectors=FEWEST)
    return load_model(folder, MachineOptions(exact=True, threads=1))


def test_a_fidelity_below_1_is_measured_and_1_is_the_scan(model):
    preview = model.layer_named("preview")
    assert model.layer_named("preview", OutputLayerOptions("preview", fidelity=0.99)).native is not preview.native
    assert model.layer_named("preview", OutputLayerOptions("preview", fidelity=1.0)) is model.layer_named("scan")
    with pytest.raises(OptionError, match=r"at most 0\.9999 with preview"):
        model.layer_named("preview", OutputLayerOptions("preview", fidelity=0.99999))


def test_auto_takes_the_preview_where_it_gains(model, monkeypatch):
    monkeypatch.delenv("SHARPBEAM_EXACT", raising=False)
    folder, gains = model.folder, model.artifacts.facts("preview")["gains"]
    assert set(gains) == {"greedy", "scores", "beam"} and gains["greedy"] > 0 and gains["scores"] > 0
    assert gains["beam"] < 1  # its estimates are coarse, so that many rows of a beam take exact sums
    machine = MachineOptions(compute_type="float32", threads=1)
    for beam_size, scores, name in ((1, False, "greedy"), (1, True, "scores"), (5, False, "beam")):
        options = DecodeOptions.of(beam_size=beam_size, return_scores=scores)  # whatever the model's own is
        expected = "preview" if gains.get(name, 0) > WORTH_IT[name] else "scan"
        assert load_model(folder, machine).layer_name(options) == expected
    monkeypatch.setitem(WORTH_IT, "greedy", 0.0)
    for fidelity, expected in ((None, "preview"), (0.9999, "preview"), (0.99999, "scan"), (1.0, "scan")):
        options = DecodeOptions.of(beam_size=1, fidelity=fidelity)
        assert load_model(folder, machine).layer_name(options) == expected
    assert worth_fitting(folder)


def test_auto_does_not_take_a_preview_of_few_vectors(model, tmp_path):
    folder = Path(shutil.copytree(model.folder, tmp_path / "model"))
    fit = fit_preview(folder, vectors=FEWEST - 1)
    assert "Give more text" in fit.summary() and load_model(folder, MachineOptions()).gains == {}


def test_sentences_that_are_too_few_are_crossed(model, tmp_path):
    folder, text = Path(shutil.copytree(model.folder, tmp_path / "model")), tmp_path / "text"
    text.write_text("\n".join(sample("de")[:30]), encoding="utf-8")
    assert fit_preview(folder, text, vectors=2000).vectors == 2000


def test_text_of_almost_nothing_leaves_the_preview_that_there_is(model, tmp_path):
    folder, text = Path(shutil.copytree(model.folder, tmp_path / "model")), tmp_path / "text"
    text.write_text("Ja.\n", encoding="utf-8")
    before = (folder / "preview.json").read_bytes()
    with pytest.raises(InputError, match=r"gives \d+ hidden vectors; it must give 100"):
        fit_preview(folder, text)
    assert (folder / "preview.json").read_bytes() == before


def test_info_says_what_was_measured_and_tuned(model, tmp_path):
    folder = Path(shutil.copytree(model.folder, tmp_path / "model"))
    save_tuned(folder, "int8", "scan", {}, {})
    facts = describe_model(folder)
    assert facts["preview"] == {"vectors": FEWEST, "sample": False} | model.artifacts.gains()
    assert facts["tuned"] == {"compute_type": "int8", "output_layer": "scan", "artifacts": {}}


def test_fidelity_1_needs_no_preview(model, tmp_path):
    folder = Path(shutil.copytree(model.folder, tmp_path / "model"))
    (folder / "preview.safetensors").write_bytes(b"broken")
    loaded = load_model(folder, MachineOptions(threads=1))
    assert loaded.layer_named("preview", OutputLayerOptions("preview", fidelity=1.0)) is loaded.layer_named("scan")


def test_empty_and_repeated_lines_count_for_nothing(tiny_model, sentences, tmp_path):
    folder, text = Path(shutil.copytree(tiny_model, tmp_path / "model")), tmp_path / "text"
    text.write_text("\n" * 400 + "Ba.\n" * 400 + "\n".join(sentences))
    assert fit_preview(folder, text, vectors=400).vectors == 400


def test_files_of_a_direction_are_read_alternately(tiny_model, tmp_path):
    for name, lines in (("a", "a1 a2 a3"), ("b", "b1")):
        (tmp_path / name).write_text(lines.replace(" ", "\n"))
    ((_, lines),) = texts_or_sample(load_model(tiny_model), [tmp_path / "a", tmp_path / "b"])
    assert list(distinct_lines(lines)) == list(distinct_lines(lines)) == ["a1", "b1", "a2", "a3"]


def test_an_option_that_a_fit_lacks_is_named():
    with pytest.raises(OptionError, match=r"fidelity is no option of fit preview; it has text, vectors"):
        fit_layer("preview", "de-en", fidelity=0.99)
    with pytest.raises(OptionError, match=r"Did you mean 'vectors'"):
        fit_layer("preview", "de-en", vector=400)


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
    assert languages_of(model.source)[:2] == ["en", "de"]  # of both; German is not copied
    assert sample_of(model) == sample("de") and len(sample("deu_Latn")) == 70 and sample("xx") == sample("en")
    fit = fit_preview(folder, vectors=300)
    assert fit.sample and "sample sentences" in fit.summary()


def test_a_language_without_a_sample_has_the_english_one_and_not_that_of_another():
    for code in ("fao", "ltz", "fil", "xx"):
        assert sample(code) == sample("en")
    for code in ("no", "nn", "nob_Latn", "nno", "nor"):
        assert sample(code) == sample("nb") != sample("en")
    for code, short in (("deu_Latn", "de"), ("fre", "fr"), ("rum", "ro"), ("ara", "ar"), ("pt-BR", "pt")):
        assert sample(code) == sample(short) != sample("en")


def test_the_source_is_found_where_the_vocabulary_has_two_files(model, tmp_path):
    folder = Path(shutil.copytree(model.folder, tmp_path / "model"))
    shutil.copy(folder / "source.spm", folder / "target.spm")
    assert sample_of(load_model(folder)) == sample("de")


def test_a_model_with_few_positions_has_a_sample(make_transformer):
    loaded = load_model(make_transformer(positions="learned", max_positions=32))
    assert len(languages_of(loaded.source)) > 1 and len(sample_of(loaded)) == 70


def test_a_model_that_wants_a_tag_is_not_fitted_without_one(make_transformer, tmp_path):
    folder, plain, tagged = make_transformer(languages={"aa": 9}, source_tag="target"), tmp_path / "a", tmp_path / "b"
    plain.write_text("Ba di ko.")
    tagged.write_text("\n>>aa<< Ba di ko.")
    loaded = load_model(folder)
    for text in ((), plain):
        with pytest.raises(OptionError, match="target_language is missing"):
            texts_or_sample(loaded, text)
    for lines in (None, ["Ba di ko."]):
        with pytest.raises(OptionError, match="target_language is missing"):
            sentences_or_sample(loaded, lines, 1)
    for text in (tagged, f"aa={plain}"):
        assert len(texts_or_sample(loaded, text)) == 1
