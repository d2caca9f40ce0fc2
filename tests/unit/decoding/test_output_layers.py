"""The output layers that a user can choose: same words as the exact one, clear errors where something is missing."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from support.artifacts import save_screen

from sharpbeam import Translator
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.fit.preview import find_preview, fit_preview
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.output_layers import registry
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.screen import FallbackTest, ResidualMass, Screen
from sharpbeam.storage.artifacts import FolderArtifacts
from sharpbeam.text.lines import file_digest
from sharpbeam.types import Floats, TopK

TEXTS = ["das ist ein haus", "wir gehen nach hause", "ein hund", "der mann sieht das haus"]


@pytest.fixture()
def folder(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def fit(folder: Path) -> None:
    weight, bias = Translator(folder).loaded.model.output()
    samples = np.random.default_rng(0).normal(size=(100, weight.shape[1])).astype(np.float32)
    FolderArtifacts(folder, weight, bias).save("preview", find_preview(weight, bias, samples), {})


def test_layers_share_what_they_have_in_common(folder):
    translator = Translator(folder)
    weight, bias = translator.loaded.model.output()
    words = np.arange(len(bias), dtype=np.int32)
    every = np.array([0, len(bias)], np.int32)
    one = Screen(weight[:1].copy(), bias[:1].copy(), every, words)
    mass = ResidualMass(weight[:1, None].copy(), bias[:1, None].copy())
    test = FallbackTest(weight[:1].copy(), k=1, margin=2.0, mass_weight=0.5, distance_weight=0.5, threshold=0.0)
    save_screen(folder, replace(one, residual=mass, fallback=test), weight, bias, {})
    assert translator.loaded.layer_named("screen").fallback is translator.loaded.layer_named("scan")
    save_screen(folder, one, weight, bias, {})
    untested = Translator(folder).loaded.layer_named("screen")
    assert untested.fallback is None  # no row is uncertain, so no other layer is packed


@pytest.mark.parametrize(
    ("choices", "text_of_error"),
    [
        (
            {"early_stopping": "proven"},
            "early_stopping is 'proven'; it must be another rule",
        ),
        ({"max_score_ratio": 2.0}, "max_score_ratio is 2.0; it must be left out with normalize False"),
    ],
)
def test_logits_are_no_log_probabilities(choices, text_of_error):
    with pytest.raises(OptionError, match=text_of_error):
        DecodeOptions.of(**choices, normalize=False)
    DecodeOptions.of(**choices)


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("output_layer", ["scan", "preview"])
def test_translations_are_those_of_the_exact_layer(folder, sentences, output_layer, beam_size):
    (folder / "text").write_text("\n".join(sentences[:60]))
    fit_preview(folder, [folder / "text"])
    translator = Translator(folder)
    off = {"scan": 8e-5, "preview": 0.02}[output_layer]  # three times what the normalizers are off here
    exact = translator.translate(TEXTS, beam_size=beam_size, max_length=12, return_scores=True)
    got = translator.translate(TEXTS, beam_size=beam_size, max_length=12, output_layer=output_layer, return_scores=True)
    assert [t.text for t in got] == [t.text for t in exact]
    for a, b in zip(got, exact, strict=True):
        assert a.score == pytest.approx(b.score, abs=off)
    scores = translator.score(TEXTS, [t.text for t in exact], output_layer=output_layer)
    expected = translator.score(TEXTS, [t.text for t in exact])
    assert [a.score for a in scores] == pytest.approx([a.score for a in expected], abs=off)


def test_without_a_preview_the_error_says_what_to_do(folder):
    with pytest.raises(ModelError, match=r"has no preview\. Make it with: sharpbeam fit preview"):
        Translator(folder).translate(TEXTS, output_layer="preview")


def test_a_preview_of_other_weights_is_refused(folder):
    weight, bias = Translator(folder).loaded.model.output()
    samples = np.ones((3, weight.shape[1]), np.float32)
    FolderArtifacts(folder, weight, bias + 1).save("preview", find_preview(weight, bias, samples), {})
    with pytest.raises(ModelError, match="fitted for other output weights"):
        Translator(folder).translate(TEXTS, output_layer="preview")


def test_a_preview_of_no_use_is_told_and_the_scan_taken(folder, caplog, monkeypatch):
    monkeypatch.delenv("SHARPBEAM_EXACT", raising=False)
    weight, bias = Translator(folder).loaded.model.output()
    samples = np.ones((3, weight.shape[1]), np.float32)
    artifacts = FolderArtifacts(folder, weight, bias)
    artifacts.save("preview", find_preview(weight, bias, samples), {"gains": {"greedy": 9.0}})
    assert {path.stat().st_mode & 0o777 for path in folder.glob("preview.*")} == {0o666 & ~_umask()}
    (folder / "preview.safetensors").write_bytes(b"not tensors at all")
    translator = Translator(folder)
    assert translator.loaded.layer_name(DecodeOptions.of(beam_size=1)) != "preview"
    (warning,) = caplog.messages
    assert "preview.safetensors" in warning and "SHA-256 differs" in warning and "sharpbeam fit preview" in warning
    with pytest.raises(ModelError, match="SHA-256 differs"):
        translator.translate(TEXTS, output_layer="preview")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_fidelity_that_was_not_measured_is_refused(folder):
    fit(folder)
    with pytest.raises(OptionError, match=r"fidelity is 0\.99999; it must be at most 0\.9999 with preview, or 1"):
        Translator(folder).translate(TEXTS, output_layer="preview", fidelity=0.99999)
    for fidelity in (0.9, 1.0):
        assert Translator(folder).translate(TEXTS, output_layer="preview", fidelity=fidelity)
    assert Translator(folder).translate(TEXTS, fidelity=0.99999)  # auto has other layers


def test_weights_that_overflow_are_an_error_and_no_empty_text(folder):
    path = folder / "model.safetensors"
    save_file({name: array.astype(np.float32) * np.float32(1e30) for name, array in load_file(path).items()}, path)
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | {"weights_sha256": file_digest(path)}))
    for beam_size in (1, 3):
        with pytest.raises(ModelError, match=r"NaN or \+inf; its weights are broken"):
            Translator(folder).translate(TEXTS, output_layer="exact", beam_size=beam_size)
    with pytest.raises(ModelError, match=r"cannot make the output layer 'scan' of .* at most 1e12 in size"):
        Translator(folder).translate(TEXTS, output_layer="scan")


@pytest.mark.parametrize("facts", [{"suppressed_ids": (0, 5)}, {"norm_kind": "rms"}, {}])
@pytest.mark.parametrize("times", [1e20, 1e37])
@pytest.mark.parametrize("compute_type", ["float32", "int8"])
def test_weights_that_overflow_where_the_first_token_is_banned(make_transformer, facts, times, compute_type):
    folder = make_transformer(**facts)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["decoder.1.ffn.down.weight"] *= np.float32(times)
    save_file(tensors, path)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"weights_sha256": file_digest(path)}))
    translator = Translator(folder, compute_type=compute_type, output_layer="exact")
    for options in ({"beam_size": 1}, {"beam_size": 4}, {"sampling": True}, {"beam_size": 1, "return_scores": True}):
        with pytest.raises(ModelError, match=r"NaN or \+inf; its weights are broken"):
            translator.translate(TEXTS, **options)
    with pytest.raises(ModelError, match=r"NaN or \+inf; its weights are broken"):
        translator.score(TEXTS, TEXTS)


class Wrong(RowLayer):
    """A layer from outside of the package with a mistake."""

    def __init__(self, vocab_size: int, answer: Any) -> None:
        self.vocab_size, self.answer = vocab_size, answer

    def topk(self, hidden: Floats, k: int) -> Any:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, r"topk\(\).log_prob is None; it must be float32 of shape \[1, 10\]"),
        (TopK(np.zeros((1, 3), np.float32), np.zeros((1, 3), np.int32)), r"float32 of shape \[1, 3\]; it must be"),
        (TopK(np.zeros((1, 10), np.float32), np.zeros((1, 10), np.int64)), r"topk\(\).token is int64 of shape"),
    ],
)
def test_a_layer_of_others_that_answers_wrongly_is_named(folder, answer, message, monkeypatch):
    monkeypatch.setattr(registry, "_LAYERS", dict(registry._LAYERS))
    registry.register_output_layer("wrong", lambda inputs: Wrong(len(inputs.bias), answer))
    with pytest.raises(ModelError, match=f"the output layer Wrong: .*{message}"):
        Translator(folder).translate(TEXTS[:1], output_layer="wrong", beam_size=5)
