"""Automatic choices: fast ones that keep the answer, unless the reference is asked for or something was tuned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from sharpbeam import ModelError, Translator
from sharpbeam.fit.preview import fit_preview
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.storage.records import TUNED, save_tuned


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARPBEAM_EXACT")


def chosen(translator: Translator) -> tuple[str, str]:
    loaded = translator.loaded
    return loaded.machine.compute_type, loaded.layer_name(DecodeOptions())


def test_without_flags_a_model_is_fast(tiny_model):
    assert chosen(Translator(tiny_model)) == ("int8", "scan")


def test_the_reference_is_one_flag_away(tiny_model, monkeypatch):
    assert chosen(Translator(tiny_model, exact=True)) == ("float32", "exact")
    monkeypatch.setenv("SHARPBEAM_EXACT", "1")
    assert chosen(Translator(tiny_model)) == ("float32", "exact")


def test_what_is_said_is_taken(tiny_model):
    assert chosen(Translator(tiny_model, compute_type="int16")) == ("int16", "scan")
    one = Translator(tiny_model, exact=True, compute_type="int8")
    assert chosen(one) == ("int8", "exact")


def test_scan_and_exact_say_the_same_in_float32(tiny_model, sentences):
    texts = sentences[:30]
    fast, reference = Translator(tiny_model, compute_type="float32"), Translator(tiny_model, exact=True)
    assert [t.text for t in fast.translate(texts)] == [t.text for t in reference.translate(texts)]


def test_what_was_tuned_is_taken_and_what_is_broken_refused(tiny_model: Path, tmp_path: Path):
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    save_tuned(folder, "int16", "exact", {}, {})
    assert chosen(Translator(folder)) == ("int16", "exact")
    assert chosen(Translator(folder, exact=True)) == ("float32", "exact")
    for text in (
        "",
        "[]",
        '{"format_version": 1}',
        '{"format_version": 9, "compute_type": "int8", "output_layer": "scan"}',
        '{"format_version": 1, "compute_type": "float16", "output_layer": "scan"}',
    ):
        (folder / TUNED).write_text(text)
        with pytest.raises(ModelError, match=TUNED):
            Translator(folder)


def test_a_tuned_layer_is_taken_as_far_as_it_was_measured_and_is_there(tiny_model, sentences, tmp_path, caplog):
    folder, text = Path(shutil.copytree(tiny_model, tmp_path / "model")), tmp_path / "text"
    text.write_text("\n".join(sentences))
    fit_preview(folder, text, vectors=200)
    save_tuned(folder, "int8", "preview", Translator(folder).loaded.artifacts.digests("preview"), {})
    loaded = Translator(folder).loaded
    for fidelity, expected in ((None, "preview"), (0.9, "preview"), (0.99999, "scan")):
        assert loaded.layer_name(DecodeOptions.of(fidelity=fidelity)) == expected
    fit_preview(folder, text, vectors=300)
    assert chosen(Translator(folder)) == ("int8", "scan") and "tuned.json: not used" in caplog.text
    for path in folder.glob("preview.*"):
        path.unlink()
    for found in ({}, None):  # as for a layer that reads none, and as in an old file
        save_tuned(folder, "int8", "preview", found, {})
        assert chosen(Translator(folder)) == ("int8", "scan")


def test_a_preview_is_left_by_searches_that_take_exact_sums_of_all_rows(tiny_model, sentences, tmp_path):
    folder, text = Path(shutil.copytree(tiny_model, tmp_path / "model")), tmp_path / "text"
    text.write_text("\n".join(sentences))
    fit_preview(folder, text, vectors=200)
    path = folder / "preview.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"gains": {"greedy": 9.0, "scores": 9.0, "beam": 9.0}}))
    measured = Translator(folder).loaded
    save_tuned(folder, "int8", "preview", measured.artifacts.digests("preview"), {})
    estimated = {}, {"beam_size": 1}, {"no_repeat_ngram_size": 2}, {"return_scores": True}, {"sampling": True}
    summed = (
        {"beam_size": 1, "repetition_penalty": 1.2},
        {"prefix_bias_beta": 0.1},
        {"stop_margin": 3.0},
        {"max_score_margin": 2.5},
        {"max_score_ratio": 1.5},
        {"finishing": "stay"},
        {"cube_pruning": "approximate"},
        {"sampling": True, "top_k": 5},
    )
    for loaded in (measured, Translator(folder).loaded):
        assert {loaded.layer_name(DecodeOptions.of(**options)) for options in estimated} == {"preview"}
        assert {loaded.layer_name(DecodeOptions.of(**options)) for options in summed} == {"scan"}


def test_a_preview_is_taken_for_the_directions_that_it_was_fitted_to(make_transformer, sentences, tmp_path):
    folder, text = make_transformer(languages={"aa": 9, "bb": 10}, source_tag="target"), tmp_path / "text"
    text.write_text("\n".join(sentences))
    fit_preview(folder, f"bb={text}", vectors=200)
    path = folder / "preview.json"
    facts = json.loads(path.read_text()) | {"gains": {"greedy": 9.0}}
    for known, others in ((facts, "scan"), (facts | {"directions": None}, "preview")):  # an old one does not say
        path.write_text(json.dumps(known))
        translator = Translator(folder)
        with translator.session(beam_size=1, target_language="bb", max_length=5) as session:
            for target in ("bb", "aa"):
                session.submit(sentences[0], target_language=target)
            layers = {translator.loaded.layer_name(lane.options) for lane in session._lanes}
        assert layers == {"preview", others}
