"""`fit_fallback_test` of a shortlist, and the files that it leaves."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from sharpbeam import Translator
from sharpbeam.errors import InputError, ModelError, OptionError
from sharpbeam.fit.fallback_test import HELD_OUT, FallbackRows, fit_fallback_test
from sharpbeam.fit.preview import fit_preview
from sharpbeam.fit.progress import FitProgress
from sharpbeam.fit.shortlist import fit_shortlist
from sharpbeam.text.lines import file_digest


@pytest.fixture(scope="module")
def fitted(tiny_model: Path, sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model with a shortlist that lacks much, and the text that it was fitted to."""
    folder = tmp_path_factory.mktemp("test")
    model, pairs, text = Path(shutil.copytree(tiny_model, folder / "model")), folder / "pairs.tsv", folder / "text"
    pairs.write_text("".join(f"{a}\t{b}\n" for a, b in zip(sentences, sentences[::-1], strict=True)))
    text.write_text("\n".join(sentences))
    fit_shortlist(model, pairs=pairs, translations=3, frequent=5, rounds=2)
    fit_preview(model, text, vectors=500)
    return model, text


def test_a_fallback_test_to_a_fidelity(fitted: tuple[Path, Path], sentences: list[str], tmp_path: Path) -> None:
    model, text = fitted
    reports: list[FitProgress] = []
    result = fit_fallback_test(model, text, fidelity=0.7, vectors=3000, progress=reports.append)
    assert result.measure.alone < 0.7 < result.measure.bound < result.measure.fidelity
    assert "fall back" in result.summary() and {one.stage for one in reports} >= {"collecting"}
    facts = json.loads((model / "shortlist_test.json").read_text())
    assert facts["fidelity"] == facts["measured"]["bound"] == result.measure.bound >= 0.7
    alone, some = Path(shutil.copytree(model, tmp_path / "alone")), sentences[:40]
    for path in alone.glob("shortlist_test.*"):
        path.unlink()
    exact, tested, untested = (
        [one.text for one in Translator(folder).translate(some, beam_size=1, output_layer=layer)]
        for folder, layer in ((model, "exact"), (model, "shortlist"), (alone, "shortlist"))
    )
    assert sum(map(str.__eq__, tested, exact)) > sum(map(str.__eq__, untested, exact))
    for fidelity, folder in ((0.9999, model), (0.5, alone)):
        with pytest.raises(OptionError, match="fidelity is"):
            Translator(folder).translate(some, output_layer="shortlist", fidelity=fidelity)
    assert Translator(model).translate(some[:1], output_layer="shortlist", fidelity=0.7)
    again = fit_fallback_test(model, text, fidelity=0.7, vectors=3000)
    assert again.test.threshold == result.test.threshold and again.test.inner.tobytes() == result.test.inner.tobytes()


def test_a_sentence_is_held_out_of_all_searches_or_of_none() -> None:
    """Greedy search and a beam begin with the same text."""
    for sentences in (4, 5, 6):
        part = FallbackRows(*[np.repeat(np.arange(sentences, dtype=np.int32), 2)] * 7)
        joined = FallbackRows.joined([part, part])
        assert (joined.hidden % HELD_OUT == joined.sentence % HELD_OUT).all()
        assert len({*joined.sentence}) == 2 * sentences


def test_bad_options_are_named(fitted: tuple[Path, Path], tiny_model: Path) -> None:
    model, text = fitted
    for options, message in (({"fidelity": 1.0}, "fidelity is 1.0"), ({"vectors": 10}, "vectors is 10")):
        with pytest.raises(OptionError, match=message):
            fit_fallback_test(model, text, **{"fidelity": 0.9, **options})
    with pytest.raises(OptionError, match="fitted to real text"):
        fit_fallback_test(model, [], fidelity=0.9)
    with pytest.raises(ModelError, match=r"has no shortlist\. Make it with: sharpbeam fit shortlist"):
        fit_fallback_test(tiny_model, text, fidelity=0.9)


def test_bad_files_are_refused(fitted: tuple[Path, Path], tmp_path: Path) -> None:
    model, text = fitted
    fit_fallback_test(model, text, fidelity=0.7, vectors=3000)
    good = load_file(model / "shortlist_test.safetensors")
    facts = json.loads((model / "shortlist_test.json").read_text())

    def refused(message: str, **changed: object) -> None:
        folder = Path(shutil.copytree(model, tmp_path / "broken"))
        arrays = {**good, **{key: value for key, value in changed.items() if isinstance(value, np.ndarray)}}
        save_file(arrays, folder / "shortlist_test.safetensors")
        numbers = {key: value for key, value in changed.items() if not isinstance(value, np.ndarray)}
        written = {**facts, "shortlist_test_sha256": file_digest(folder / "shortlist_test.safetensors"), **numbers}
        (folder / "shortlist_test.json").write_text(json.dumps(written))
        assert re.search(message, Translator(folder).loaded.artifacts.fault("shortlist_test"))
        assert Translator(folder).translate(["a"], output_layer="shortlist")  # without the test
        shutil.rmtree(folder)

    refused("inner is float32 of shape", inner=good["inner"][:, 1:].copy())
    refused("outer has values that are no numbers", outer=good["outer"] * np.float32(np.nan))
    refused("bias is float64", bias=good["bias"].astype(np.float64))
    refused("threshold is 'high'; it must be a number", threshold="high")
    refused("most_share is nan; it must be a number", most_share=float("nan"))
    refused("was fitted for other output weights", output_sha256="0")
    refused("was fitted for other shortlist", shortlist_sha256="0")


def test_a_fidelity_that_is_not_reached_writes_nothing(fitted: tuple[Path, Path], tmp_path: Path) -> None:
    model, text = fitted
    folder = Path(shutil.copytree(model, tmp_path / "model"))
    for path in folder.glob("shortlist_test.*"):
        path.unlink()
    with pytest.raises(InputError, match="No fallback test was written"):
        fit_fallback_test(folder, text, fidelity=0.99999, vectors=3000)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InputError, match="No fallback test was written"):
        fit_shortlist(folder, pairs=text.parent / "pairs.tsv", text=text, fidelity=0.99999, overwrite=True, frequent=9)
    (one := tmp_path / "one.txt").write_text(text.read_text().splitlines()[0] + "\n")
    with pytest.raises(InputError, match="the text is too short to fit and to measure"):
        fit_fallback_test(folder, one, fidelity=0.01, vectors=3000)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert not list(folder.glob("shortlist_test.*"))
