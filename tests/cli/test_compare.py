"""The verb `compare`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command import Run

pytest.importorskip("sacrebleu")


def test_two_systems_from_figures_to_differences(call: Run, tiny_model: Path, text: Path, tmp_path: Path) -> None:
    short, long = (f"{tiny_model},max_length={length}" for length in (4, 9))
    result = call("compare", short, f"{short},output_layer=scan", "--source", text)
    assert result.status == 0, result.err
    assert "outputs are identical (100.00%)" in result.out.decode()
    listed = tmp_path / "listed"
    flags = ("--source", text, "--reference", text, "--resamples", 20, "--differences", listed)
    result = call("compare", short, long, *flags)
    assert result.status == 0, result.err
    assert b"BLEU   A" in result.out and b"p = " in result.out
    found = json.loads(call("compare", short, long, *flags[:6], "--json").out)
    assert len(listed.read_text().splitlines()) == round((1 - found["identical"]) * found["sentences"])
    assert [score["name"] for score in found["scores"]] == ["BLEU", "chrF2"]


def test_misuse_of_compare(call: Run, tiny_model: Path, text: Path, tmp_path: Path) -> None:
    call("compare", tiny_model).refused(2, "give two systems")
    call("compare", text, text, "--tsv", text, "--source", text).refused(2, "give either --source")
    call("compare", text, tmp_path / "none").refused(1, "there is no model")
    call("compare", text, f"{tiny_model},beam_sise=3", "--source", text).refused(2, "unknown option 'beam_sise'")
