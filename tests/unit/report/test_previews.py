"""The report of a preview: what each stage leaves, in words and as a picture."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sharpbeam.decoding.loading import WORTH_IT, LoadedModel, find_model, load_model
from sharpbeam.fit.low_bit_job import fit_preview, worth_fitting
from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.report.previews import PreviewReport, draw_previews, report_previews
from sharpbeam.storage.low_bit import FILE, read_gains

TEXT = ["Das ist ein Haus.", "Ich habe gestern ein gutes Buch gelesen.", "Wo ist der Bahnhof?", "Es regnet."] * 12


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    folder = Path(shutil.copytree(find_model("de-en"), tmp_path_factory.mktemp("report") / "de-en"))
    text = folder.parent / "text"
    text.write_text("\n".join(TEXT), encoding="utf-8")
    fit_preview(folder, text, vectors=400)
    return load_model(folder, MachineOptions(exact=True, threads=1))


@pytest.fixture(scope="module")
def reports(model: LoadedModel) -> list[PreviewReport]:
    return report_previews(model, TEXT, 300)


def test_each_stage_leaves_fewer_and_the_proven_layer_misses_nothing(reports):
    assert [one.layer for one in reports] == ["proven", "calibrated"]
    for one in reports:
        assert 100 < one.rows <= 300
        assert one.tokens > one.previewed >= one.compared >= one.matter > 0
        assert 0 <= one.skipped <= 1
        assert f"{one.matter:.2f} of {one.tokens}" in one.text()
    assert reports[0].missed == 0
    assert 0 <= reports[0].settled <= 1 and "exact sum of" in reports[0].text()
    assert reports[1].missed < 0.02


def test_the_report_is_drawn(reports, tmp_path):
    pytest.importorskip("matplotlib")
    draw_previews(reports, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_auto_takes_the_proven_layer_where_the_preview_gains(model, monkeypatch):
    monkeypatch.delenv("SHARPBEAM_EXACT", raising=False)
    folder, output = model.folder, model.model.output()
    gains = read_gains(folder, *output)
    assert set(gains) <= {"greedy", "scores", "beam"} and gains["greedy"] > 0 and gains["scores"] > 0
    machine = MachineOptions(compute_type="float32", threads=1)
    for beam_size, scores, name in ((1, False, "greedy"), (1, True, "scores"), (5, False, "beam")):
        options = DecodeOptions.of(beam_size=beam_size, return_scores=scores)  # whatever the model's own is
        wanted = "proven" if gains.get(name, 0) > WORTH_IT[name] else "scan"
        assert load_model(folder, machine).layer_name(options) == wanted
    assert read_gains(folder, output[0], output[1] + 1) == {}  # fitted for other weights
    assert worth_fitting(folder)


def test_auto_is_the_scan_where_the_preview_cannot_be_read(model, tmp_path, monkeypatch):
    monkeypatch.delenv("SHARPBEAM_EXACT", raising=False)
    folder = Path(shutil.copytree(model.folder, tmp_path / "model"))
    (folder / FILE).write_bytes(b"no safetensors")
    loaded = load_model(folder, MachineOptions(compute_type="float32", threads=1))
    assert loaded.layer_name(loaded.options) == "scan"
