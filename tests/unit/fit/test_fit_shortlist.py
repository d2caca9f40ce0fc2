"""The library's `fit_shortlist`."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sharpbeam import Translator
from sharpbeam.errors import InputError, OptionError, OutputError
from sharpbeam.fit.progress import FitProgress
from sharpbeam.fit.shortlist import fit_shortlist
from sharpbeam.options.fit import ShortlistOptions


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


@pytest.fixture
def pairs(sentences: list[str], tmp_path: Path) -> Path:
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{a}\t{b}\n" for a, b in zip(sentences, sentences[::-1], strict=True)))
    return path


def test_from_pairs_to_a_translator(model: Path, pairs: Path, sentences: list[str]) -> None:
    reports: list[FitProgress] = []
    options = ShortlistOptions(translations=3, frequent=5, rounds=2)
    fitted = fit_shortlist(model, pairs=pairs, options=options, progress=reports.append)
    assert fitted.facts["fitted_pairs"] + fitted.facts["held_out"]["pairs"] == len(sentences)
    assert "tokens in every set" in fitted.summary()
    for share, too_few in ((0.94, True), (0.98, False)):
        held_out = {"pairs": 1, "words": share, "average_set": 9.0}
        message = replace(fitted, facts={**fitted.facts, "held_out": held_out}).summary()
        assert ("Fit it on more pairs" in message) == too_few
    aligned = [(report.done, report.total) for report in reports if report.stage == "aligning"]
    assert aligned == [(0, 2), (1, 2), (2, 2)]
    assert [report.done for report in reports if report.stage == "reading"][-1] == len(sentences)
    assert len(Translator(model).translate(sentences[:3], output_layer="shortlist", max_length=9)) == 3


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
    with pytest.raises(InputError, match=r"cannot read .*none"):
        fit_shortlist(model, pairs=repeated, overwrite=True, text=tmp_path / "none", fidelity=0.9, translations=1)
    with pytest.raises(OptionError, match="pairs is '-'; it must be the name of a file"):
        fit_shortlist(model, pairs="-", overwrite=True)
    assert (model / "shortlist.safetensors").read_bytes() == before


def test_what_does_not_fit_together(model: Path, pairs: Path) -> None:
    with pytest.raises(OptionError, match="give pairs, or text with a fidelity"):
        fit_shortlist(model)
    for options, got in (
        ({"text": pairs}, "0.0"),
        ({"fidelity": 0.9}, "0.9"),
        ({"pairs": pairs, "fidelity": 0.9}, "0.9"),
    ):
        with pytest.raises(OptionError, match=f"fidelity is {got}; it must be above 0 with text"):
            fit_shortlist(model, **options)
    with pytest.raises(OptionError, match="fidelity is 1; it must be 0 or more and below 1"):
        fit_shortlist(model, text=pairs, fidelity=1)
