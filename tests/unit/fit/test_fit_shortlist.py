"""The library's `fit_shortlist` and `export_shortlist`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sharpbeam import Translator
from sharpbeam.errors import InputError, ModelError, OptionError, OutputError
from sharpbeam.fit.progress import FitProgress
from sharpbeam.fit.shortlist.job import export_shortlist, fit_shortlist
from sharpbeam.options.decode import LanguageOptions
from sharpbeam.options.fit import ShortlistOptions


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


@pytest.fixture
def pairs(sentences: list[str], tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in zip(sentences, sentences[::-1], strict=True)))
    return path


def test_from_pairs_to_a_translator_and_another_engine(
    model: Path, pairs: Path, sentences: list[str], tmp_path: Path
) -> None:
    reports: list[FitProgress] = []
    options = ShortlistOptions(translations=3, frequent=5, rounds=2)
    fitted = fit_shortlist(model, pairs=pairs, options=options, progress=reports.append)
    assert fitted.facts["fitted_pairs"] + fitted.facts["held_out"]["pairs"] == len(sentences)
    assert "tokens in every set" in fitted.summary()
    for share, too_few in ((0.94, True), (0.98, False)):
        held_out = {"pairs": 1, "words": share, "average_set": 9.0}
        said = replace(fitted, facts={**fitted.facts, "held_out": held_out}).summary()
        assert ("Fit it on more pairs" in said) == too_few
    aligned = [(report.done, report.total) for report in reports if report.stage == "aligning"]
    assert aligned == [(0, 2), (1, 2), (2, 2)]
    assert [report.done for report in reports if report.stage == "reading"][-1] == len(sentences)
    assert len(Translator(model).translate(sentences[:3], output_layer="shortlist", max_length=9)) == 3
    assert export_shortlist(model, tmp_path / "vmap") == 0
    again = fit_shortlist(model, vmap=tmp_path / "vmap", overwrite=True).shortlist
    assert again.token.tolist() == fitted.shortlist.token.tolist()
    assert again.always.tolist() == fitted.shortlist.always.tolist()


def test_its_own_translations_are_kept_only_where_asked(model: Path, sentences: list[str], tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("".join(f"{sentence}\n" for sentence in sentences[:20]))
    fit_shortlist(model, text=text)
    assert not model.with_name("model.translations").exists()
    fit_shortlist(model, text=text, work=tmp_path / "kept", overwrite=True)
    assert len((tmp_path / "kept").read_text().splitlines()) == 20


def test_after_too_small_a_text_another_may_be_tried(model: Path, sentences: list[str], tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("ba\n" * 30)
    with pytest.raises(InputError, match="Nothing was written"):
        fit_shortlist(model, text=text)
    assert not model.with_name("model.translations").exists()
    text.write_text("".join(f"{sentence}\n" for sentence in sentences[:20]))
    fit_shortlist(model, text=text)


def test_what_would_break_the_model_writes_nothing(model: Path, sentences: list[str], tmp_path: Path) -> None:
    few, repeated = tmp_path / "few", tmp_path / "repeated"
    few.write_text("ba\tbu\n" * 300)
    with pytest.raises(InputError, match="Nothing was written"):
        fit_shortlist(model, pairs=few)
    repeated.write_text("".join(f"{sentence}\t{sentence}\n" for sentence in sentences[:120] * 3))
    fitted = fit_shortlist(model, pairs=repeated)
    assert fitted.facts["fitted_pairs"] + fitted.facts["held_out"]["pairs"] == len(set(sentences[:120]))
    before = (model / "shortlist.safetensors").read_bytes()
    with pytest.raises(OutputError, match="give --overwrite"):
        fit_shortlist(model, pairs=repeated)
    assert (model / "shortlist.safetensors").read_bytes() == before


def test_what_does_not_fit_together(model: Path, pairs: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="give one of pairs, text, lex and vmap"):
        fit_shortlist(model)
    with pytest.raises(OptionError, match="give one of"):
        fit_shortlist(model, pairs=pairs, lex=pairs)
    with pytest.raises(OptionError, match="source_language is 'de'"):
        fit_shortlist(model, pairs=pairs, languages=LanguageOptions(source_language="de"))
    with pytest.raises(ModelError, match="has no shortlist"):
        export_shortlist(model, tmp_path / "vmap")
    with pytest.raises(OutputError, match="is a folder"):
        export_shortlist(model, tmp_path)
