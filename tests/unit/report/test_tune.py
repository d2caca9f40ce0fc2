"""Tuning measures every choice, keeps the answers, says what it does, and can be undone."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest

from sharpbeam import InputError, OutputError, Translator, fit_layer, tune
from sharpbeam.fit.preview import fit_preview
from sharpbeam.report import tune as tuning
from sharpbeam.report.tune import undo_tuning
from sharpbeam.storage.records import TUNED


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, sentences: list[str]) -> Path:
    root = tmp_path_factory.mktemp("tuned")
    (root / "text").write_text("\n".join(sentences[:120]))
    folder = Path(shutil.copytree(tiny_model, root / "model"))
    fit_preview(folder, root / "text", vectors=400)
    facts = json.loads((folder / "preview.json").read_text())
    (folder / "preview.json").write_text(json.dumps(facts | {"gains": {}}))  # what auto is must not depend on times
    return folder


@pytest.fixture(autouse=True)
def not_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARPBEAM_EXACT", raising=False)


def timed(monkeypatch: pytest.MonkeyPatch, times: dict[str, float], texts: dict[str, str]) -> None:
    """Let a choice take a given time and give a given answer; 2 ms and "a" otherwise."""

    def measure(translator, lines, layer, beam_size):
        name = f"{translator.loaded.machine.compute_type} {layer}"
        return [texts.get(name, "a")] * len(lines), times.get(name, 2.0)

    monkeypatch.setattr(tuning, "_measure", measure)
    monkeypatch.setattr(Translator, "translate", lambda self, lines, **_: [type("T", (), {"text": "a"}) for _ in lines])


def test_every_layer_that_the_model_has_is_measured(model: Path) -> None:
    messages: list[str] = []
    result = tune(model, [model.parent / "text"], beam_size=2, sentences=6, dry_run=True, progress=messages.append)
    names = {choice.name for choice in result.choices}
    assert names == {f"{kind} {layer}" for kind in ("int8", "int16", "float32") for layer in ("exact", "scan")} | {
        "int8 preview"
    }
    assert not (model / TUNED).exists() and messages[-1].startswith("21 of 21: ")
    table = result.table()
    assert table.count("<- now") == 1 and table.count("<- best") == 1 and "x1.00" in table


def test_the_fastest_with_the_same_answers_is_written_and_undone(model: Path, monkeypatch) -> None:
    timed(monkeypatch, {"int16 scan": 1.0, "int8 exact": 0.5}, {"int8 exact": "b"})
    result = tune(model, [model.parent / "text"], sentences=4)
    assert result.written and result.best.name == "int16 scan"
    monkeypatch.undo()
    monkeypatch.delenv("SHARPBEAM_EXACT", raising=False)
    loaded = Translator(model).loaded
    assert (loaded.machine.compute_type, loaded.fastest) == ("int16", "scan")
    assert "tune --undo" in result.table()
    assert undo_tuning(model) and not undo_tuning(model) and not (model / TUNED).exists()


def test_the_present_choice_stays_if_others_are_slower_or_give_other_answers(model: Path, monkeypatch) -> None:
    timed(monkeypatch, {"int8 scan": 1.5, "int8 preview": 0.5}, {"int8 preview": "b"})
    result = tune(model, sentences=4, beam_size=5)  # of the sample sentences
    assert result.best is result.present and not result.written and not (model / TUNED).exists()
    assert "Kept: nothing is faster" in result.table()


def test_as_many_same_answers_as_now_are_enough(model: Path, monkeypatch) -> None:
    timed(monkeypatch, {"int8 preview": 0.5}, {"int8 preview": "b", "int8 scan": "b"})
    result = tune(model, sentences=4, beam_size=5, dry_run=True)
    assert result.present.same == 0 and result.best.name == "int8 preview" and "nothing was written" in result.table()


def test_the_beam_is_that_of_the_model_unless_another_is_given(model: Path, tmp_path: Path, monkeypatch) -> None:
    timed(monkeypatch, {}, {})
    facts = json.loads((model / "config.json").read_text())
    folder = Path(shutil.copytree(model, tmp_path / "greedy"))
    (folder / "config.json").write_text(json.dumps(facts | {"decoding": {"beam_size": 1}}))
    assert tune(folder, sentences=1, dry_run=True).beam_size == 1


def test_a_preview_that_cannot_be_read_is_left_out_and_told(model: Path, tmp_path: Path, monkeypatch) -> None:
    timed(monkeypatch, {}, {})
    folder = Path(shutil.copytree(model, tmp_path / "old"))
    (folder / "preview.safetensors").write_bytes(b"")
    result = tune(folder, sentences=1, dry_run=True)
    assert "preview" not in {choice.output_layer for choice in result.choices}
    assert "Not measured" in result.skipped[0] and "sharpbeam fit preview" in result.table()


def test_bundled_models_are_not_written_to(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("Guten Morgen.\n")
    for write in (tune, undo_tuning, partial(fit_layer, "preview"), partial(fit_layer, "screen", text=text)):
        with pytest.raises(OutputError, match="belongs to the package"):
            write("de-en")
    for more in ({"text": text, "fidelity": 0.99}, {"pairs": text}):
        with pytest.raises(OutputError, match="belongs to the package"):
            fit_layer("shortlist", "de-en", **more)


def test_a_text_may_be_one_file(model: Path, tmp_path: Path, monkeypatch) -> None:
    timed(monkeypatch, {}, {})
    text = tmp_path / "text"
    text.write_text("ba di.\n")
    assert tune(model, str(text), dry_run=True).sentences == tune(model, [text], dry_run=True).sentences == 1


def test_text_without_a_sentence_is_refused(model: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n \n")
    with pytest.raises(InputError, match="no sentence"):
        tune(model, [tmp_path / "empty"])
