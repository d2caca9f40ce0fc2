"""The verb `report`, of a screen."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.command import Run

from sharpbeam.output_layers.registry import find_artifact
from sharpbeam.storage.artifacts import read_facts


@pytest.fixture
def model(call: Run, tiny_model: Path, text: Path, tmp_path: Path) -> Path:
    """A model with a screen."""
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    flags = ("--method", "kmeans", "--clusters", 6, "--fidelity", 0.8, "--top-k", 2, "--beam-size", 1)
    flags += ("--tolerance", 0.3, "--budget", 15)
    assert call("fit", "screen", folder, "--text", text, *flags).status == 0
    return folder


def test_the_report_says_what_the_screen_does(call: Run, model: Path, text: Path, tmp_path: Path) -> None:
    result = call("report", model, "--text", text, "--json")
    assert result.status == 0, result.err
    report = json.loads(result.out)
    facts = read_facts(model, find_artifact("screen"))
    assert report["held_out"] == facts["held_out"] and report["curve"] == facts["curve"]
    sizes, sets = facts["set_sizes"], report["sets"]
    assert (sets["least"], sets["most"], sets["clusters"]) == (min(sizes), max(sizes), 6)
    assert sets["least"] <= sets["median"] <= sets["most"] <= sets["distinct"]
    measure = report["measured"]
    reasons = measure["fallback_reasons"]
    assert reasons["rows"] == measure["rows"] and reasons["fallen_back"] == round(measure["fallback"] * reasons["rows"])
    assert reasons["few"] + reasons["low"] + reasons["far"] + reasons["loose"] == reasons["fallen_back"] > 0
    assert reasons["missed"] <= round((1 - measure["fidelity"]) * measure["steps"])  # a step of greedy search is a row


def test_the_text_has_every_part(call: Run, model: Path) -> None:
    result = call("report", model)
    assert result.status == 0, result.err
    text = result.out.decode()
    parts = ("kmeans, 6 clusters", "held-out", "steps as with the exact layer", "rows fall back", "Sets:")
    for part in parts:
        assert part in text
    assert "On the given text" not in text


def test_what_cannot_be_reported_is_said(call: Run, model: Path, tiny_model: Path, tmp_path: Path) -> None:
    call("report", tiny_model).refused(1, "has no screen", "fit screen")
    call("report", tmp_path / "none").refused(1, "there is no model")
    call("report", model, "--text", tmp_path / "none").refused(1, "cannot read")
    (model / "screen.json").write_text("{")
    call("report", model).refused(1, "is not JSON")
