"""The library's `fit_net`, and the files that it leaves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from sharpbeam import FitProgress, Translator, fit_net, fit_preview, fit_shortlist
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.text.lines import file_digest


@pytest.fixture(scope="module")
def fitted(tiny_model: Path, sentences: list[str], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A model with a shortlist that lacks much, and the net of it; and the text that it was fitted to."""
    folder = tmp_path_factory.mktemp("net")
    model, pairs, text = Path(shutil.copytree(tiny_model, folder / "model")), folder / "pairs.tsv", folder / "text"
    pairs.write_text("".join(f"{a}\t{b}\n" for a, b in zip(sentences, sentences[::-1], strict=True)))
    text.write_text("\n".join(sentences))
    fit_shortlist(model, pairs=pairs, translations=3, frequent=5, rounds=2)
    fit_preview(model, text, vectors=500)
    return model, text


def test_a_net_to_the_fidelity_that_is_asked_for(fitted: tuple[Path, Path], sentences: list[str]) -> None:
    model, text = fitted
    reports: list[FitProgress] = []
    found = fit_net(model, text, fidelity=0.97, vectors=3000, progress=reports.append)
    assert found.measure.alone < 0.9 and found.measure.fidelity > 0.97 > found.measure.alone
    assert not found.made_up and "fall back" in found.summary() and {one.stage for one in reports} >= {"collecting"}
    facts = json.loads((model / "net.json").read_text())
    assert facts["fidelity"] == 0.97 and facts["measured"]["bound"] == found.measure.bound
    translator, some = Translator(model), sentences[:40]
    by_layer = {
        layer: [one.text for one in translator.translate(some, beam_size=1, output_layer=layer)]
        for layer in ("exact", "shortlist", "shortlist-net")
    }
    agree = {layer: sum(map(str.__eq__, texts, by_layer["exact"])) for layer, texts in by_layer.items()}
    assert agree["shortlist-net"] > agree["shortlist"]
    again = fit_net(model, text, fidelity=0.97, vectors=3000)
    assert again.net.threshold == found.net.threshold and again.net.inner.tobytes() == found.net.inner.tobytes()


def test_bad_options_are_named(fitted: tuple[Path, Path], tiny_model: Path) -> None:
    model, text = fitted
    for options, message in (({"fidelity": 1.0}, "fidelity is 1.0"), ({"vectors": 10}, "vectors is 10")):
        with pytest.raises(OptionError, match=message):
            fit_net(model, text, **options)
    with pytest.raises(ModelError, match="has no shortlist; make one: sharpbeam fit-shortlist"):
        fit_net(tiny_model, text)


def test_bad_files_are_refused(fitted: tuple[Path, Path], tmp_path: Path) -> None:
    model, text = fitted
    fit_net(model, text, fidelity=0.9, vectors=3000)
    good, facts = load_file(model / "net.safetensors"), json.loads((model / "net.json").read_text())

    def refused(message: str, name: str = "model", **changed: object) -> None:
        folder = Path(shutil.copytree(model, tmp_path / "broken"))
        arrays = {**good, **{key: value for key, value in changed.items() if isinstance(value, np.ndarray)}}
        save_file(arrays, folder / "net.safetensors")
        numbers = {key: value for key, value in changed.items() if not isinstance(value, np.ndarray)}
        written = {**facts, "net_sha256": file_digest(folder / "net.safetensors"), **numbers}
        (folder / "net.json").write_text(json.dumps(written))
        with pytest.raises(ModelError, match=message):
            Translator(folder).translate(["a"], output_layer="shortlist-net")
        shutil.rmtree(folder)

    refused("inner must be finite float32", inner=good["inner"][:, 1:].copy())
    refused("outer must be finite float32", outer=good["outer"] * np.float32(np.nan))
    refused("bias must be finite float32", bias=good["bias"].astype(np.float64))
    refused("of 1 unit or more", bias=np.empty(0, np.float32))
    refused("threshold is 'high'; it must be a finite number", threshold="high")
    refused("most_share is nan; it must be a finite number", most_share=float("nan"))
    refused("was fitted for other output weights", output_sha256="0")
    refused("was fitted for other shortlist", shortlist_sha256="0")
    (model / "net.safetensors").unlink()
    with pytest.raises(ModelError, match=r"net\.safetensors is missing"):
        Translator(model).translate(["a"], output_layer="shortlist-net")
