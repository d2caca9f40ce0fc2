"""Tuning measures every choice, keeps the answers, and is taken from then on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from sharpbeam import InputError, Translator, fit_net, fit_shortlist, tune
from sharpbeam.report.tune import KEEP, LAYERS
from sharpbeam.storage.low_bit import FILE as LOW_BIT
from sharpbeam.storage.tuned import FILE


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, sentences: list[str]) -> Path:
    root = tmp_path_factory.mktemp("tuned")
    (root / "text").write_text("\n".join(sentences[:120]))
    (root / "pairs").write_text("".join(f"{line}\t{line}\n" for line in sentences[:120]))
    folder = Path(shutil.copytree(tiny_model, root / "model"))
    fit_shortlist(folder, pairs=root / "pairs", rounds=1)
    fit_net(folder, root / "text", vectors=3000)
    found = tune(folder, [root / "text"], beam_size=2, sentences=12)
    assert {choice.output_layer for choice in found.choices} == set(LAYERS)
    assert found.best.output_layer in KEEP and found.best.same >= 0.9
    assert found.best.one == min(c.one for c in found.choices if c.output_layer in KEEP and c.same >= 0.9)
    assert found.table().count("chosen") == 1
    pytest.importorskip("matplotlib")
    assert found.draw().read_bytes().startswith(b"\x89PNG") and found.draw() == folder / "tuned.png"
    return folder


def test_the_choice_is_written_and_taken(tuned, monkeypatch):
    facts = json.loads((tuned / FILE).read_text())
    assert len(facts["measured"]["choices"]) == 9
    monkeypatch.delenv("SHARPBEAM_EXACT")
    translator = Translator(tuned)
    assert translator.loaded.machine.compute_type == facts["compute_type"]
    assert translator.loaded.fastest == facts["output_layer"]


def test_the_beam_is_that_of_the_model_unless_another_is_given(tuned, tmp_path):
    (tmp_path / "text").write_text("a b\n")
    facts = json.loads((tuned / "config.json").read_text())
    folder = Path(shutil.copytree(tuned, tmp_path / "greedy"))
    (folder / "config.json").write_text(json.dumps(facts | {"decoding": {"beam_size": 1}}))
    assert tune(folder, [tmp_path / "text"], sentences=1).beam_size == 1


def test_a_preview_of_an_older_version_is_skipped_and_said(tuned, tmp_path):
    folder = Path(shutil.copytree(tuned, tmp_path / "old"))
    with safe_open(folder / LOW_BIT, framework="np") as file:
        facts, arrays = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(arrays, folder / LOW_BIT, {**facts, "format_version": "0"})
    (tmp_path / "text").write_text("a b\n")
    said: list[str] = []
    found = tune(folder, [tmp_path / "text"], sentences=1, progress=said.append)
    assert {choice.output_layer for choice in found.choices} == {"scan", "exact"}
    (why,) = found.skipped
    assert "format_version is '0'" in why and "fit-preview" in why
    assert why in said and why in found.table()


def test_text_without_a_sentence_is_refused(tuned, tmp_path):
    (tmp_path / "empty").write_text("\n \n")
    with pytest.raises(InputError, match="no sentence"):
        tune(tuned, [tmp_path / "empty"])
