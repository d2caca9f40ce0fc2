"""How a model is named: folders, bundled models, and what is no name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from sharpbeam import Generator, ModelError, Scorer, Translator
from sharpbeam.decoding.loading import find_model


def test_names_of_models(tiny_model: Path, tmp_path: Path) -> None:
    assert find_model(tiny_model) == tiny_model and find_model(str(tiny_model)) == tiny_model
    with pytest.raises(ModelError, match=r"there is no model 'no-such': .*Bundled are"):
        Translator("no-such")
    with pytest.raises(ModelError, match=r"cannot read .*config\.json"):
        Translator(tmp_path)


def test_bundled_models_are_found_by_name(monkeypatch: pytest.MonkeyPatch, tiny_model: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_model, tmp_path / "bundled" / "xx-yy")
    monkeypatch.setattr("sharpbeam.decoding.loading.resources.files", lambda package: tmp_path)
    assert find_model("xx-yy") == tmp_path / "bundled" / "xx-yy"
    with pytest.raises(ModelError, match=r"Did you mean 'xx-yy'\? Bundled are: xx-yy"):
        find_model("xx-zz")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "xx-yy").mkdir()
    assert find_model("xx-yy") == tmp_path / "bundled" / "xx-yy"  # next to an empty folder
    (tmp_path / "xx-yy" / "source.spm").touch()
    with pytest.raises(ModelError, match=r"config\.json"):  # a model that is broken: no other one answers for it
        Translator("xx-yy")
    shutil.copytree(tiny_model, tmp_path / "xx-yy", dirs_exist_ok=True)
    assert find_model("xx-yy") == Path("xx-yy")  # which `convert` has written


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(ModelError, match="there is no model 'xxx"):
        Translator("x" * 300)


def test_a_model_that_is_no_name_is_refused() -> None:
    with pytest.raises(ModelError, match="the model is None; give a folder"):
        Translator(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [Translator, Generator, Scorer])
def test_a_model_that_is_left_out_is_named(kind: Any) -> None:
    with pytest.raises(TypeError, match=r"missing 1 .* argument: 'model'"):
        kind()
