"""Models by name on the command line, in Python and in a server, from a registry on the loopback."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.command import Run
from support.registry import Registry, folder_files, serving, tar_of

import sharpbeam
from sharpbeam import Head, Translator
from sharpbeam.errors import InputError
from sharpbeam.fit.new_model import make_model
from sharpbeam.server.catalog import Catalog

MODEL = {"model.deen.intgemm.alphas.bin": b"weights", "vocab.deen.spm": b"vocab"}


@pytest.fixture
def registry(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """A registry with a model of Firefox, which is converted to `tiny_model`, and with that as an archive."""
    registry = Registry()
    registry.add_firefox("de", "en", MODEL)
    registry.files["h.example/tiny.tar.gz"] = tar_of({f"m/{name}": d for name, d in folder_files(tiny_model).items()})
    monkeypatch.setenv("SHARPBEAM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("SHARPBEAM_OFFLINE", "0")  # --offline sets it for this process
    monkeypatch.setattr(sharpbeam, "_make_model", lambda files, folder: shutil.copytree(tiny_model, folder))
    with serving(registry):
        monkeypatch.setenv("SHARPBEAM_MIRROR", registry.address)
        yield registry


def test_a_model_is_found_fetched_used_packed_and_removed(
    call: Run, registry: Registry, tmp_path: Path, tiny_model: Path
) -> None:
    assert call("models", "list").lines == []
    (line,) = call("models", "find", "de", "en").lines
    assert line.split(maxsplit=5)[:5] == ["firefox:de-en", "tiny", "0", "MB", "MPL-2.0"]
    assert line.endswith("flores200-plus: bleu 38.8, comet22 0.87")
    (folder,) = call("models", "get", "firefox:de-en").lines
    assert folder == str(tmp_path / "cache" / "models" / "firefox" / "de-en")
    (tmp_path / "in").write_text("kanu.\n", encoding="utf-8")
    by_name, by_folder = [call("translate", each, tmp_path / "in") for each in ("firefox:de-en", tiny_model)]
    assert by_name.lines == by_folder.lines
    call("models", "pack", "firefox:de-en", tmp_path / "m.tar")
    call("models", "get", "https://h.example/tiny.tar.gz")
    assert len(call("models", "list").lines) == 2
    call("models", "remove", "firefox:de-en", "https://h.example/tiny.tar.gz")
    assert call("models", "list").lines == []
    call("--offline", "models", "get", "firefox:de-en").refused(1, "firefox:de-en is not in the cache")
    assert call("models", "get", tmp_path / "m.tar").lines == [folder]
    (line,) = call("models", "list").lines
    assert line.split()[0] == "firefox:de-en"


def test_a_name_is_a_model_everywhere(registry: Registry, tiny_model: Path) -> None:
    assert next(iter(Catalog(["firefox:de-en"]).entries.values())).pairs == {("de", "en")}
    assert len(registry.asked) == 2  # lists: a server fetches models at the first use
    with pytest.raises(InputError, match="firefox has no model 'de-xx'"):
        Catalog(["firefox:de-xx"])
    text = ["kanu dile."]
    assert Translator("firefox:de-en").translate(text)[0].text == Translator(tiny_model).translate(text)[0].text
    assert len(Translator("firefox:de-en+firefox:de-en").loaded.folders) == 2
    weight, bias = Translator(tiny_model).loaded.model.output()
    hidden = np.linspace(-1, 1, 4 * weight.shape[1], dtype=np.float32).reshape(4, -1)
    own, named = Head(weight, bias, "exact").topk(hidden, 3), Head.load("firefox:de-en", "exact").topk(hidden, 3)
    assert np.array_equal(own.token, named.token)


def test_an_archive_of_a_model_folder_is_used_as_it_is(
    call: Run, registry: Registry, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharpbeam, "_make_model", make_model)
    (folder,) = call("models", "get", "https://h.example/tiny.tar.gz").lines
    names = {path.name for path in tiny_model.iterdir()}
    assert {path.name for path in Path(folder).iterdir()} == names | {"origin.json"}


def test_names_that_would_fit_are_proposed(call: Run, registry: Registry) -> None:
    call("translate", "pt-fr").refused(1, "firefox:pt-fr, bergamot:pt-fr or opus:pt-fr; sharpbeam models find pt fr")
    call("info", "owner/name").refused(1, "Of the Hugging Face hub it is hf:owner/name")
    call("translate", "firefox:pt").refused(2, "the model is 'firefox:pt'; after firefox: write SOURCE-TARGET")
    call("translate", "firefox:pt-fr").refused(1, "firefox has no model 'pt-fr' among 1", "models find pt fr")
    call("models", "find", "pt", "fr").refused(1, "no registry that answers has a model from 'pt' to 'fr'")
    call("models", "find", "english", "fr").refused(1, "give codes, such as en and pt")
    call("models", "--offline", "find", "pt", "fr").refused(1, "no registry can be asked; firefox: cannot fetch")
    call("translate", "firefoz:pt-fr").refused(1, "Did you mean 'firefox:pt-fr'?")
    call("translate", "de-en", "report.pdf").refused(2, "report.pdf cannot be translated: save it as text or HTML")
    call("models", "remove", "firefox:pt-fr").refused(1, "is not in the cache")
