"""The verb `convert` on what is no model, and on places that it must not write to: one line, and nothing is written."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from pathlib import Path

import pytest
from support.command import Run

from sharpbeam.fit.new_model import measure_and_fit

HUGGING_FACE, OURS = '{"model_type": "marian"}', '{"format_version": 1}'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An own working folder with a Hugging Face config, no weights, no network, and an empty folder."""
    monkeypatch.setenv("SHARPBEAM_OFFLINE", "1")
    monkeypatch.setenv("SHARPBEAM_CACHE", str(tmp_path / "cache"))
    for name in ("whole", "empty", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "whole" / "config.json").write_text(HUGGING_FACE)
    (tmp_path / "file").write_text("no model")
    (tmp_path / "empty.npz").write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("origin", "parts"),
    [
        ("none", ("there is no folder or file 'none'", "owner/name")),
        ("./none", ("there is no folder or file './none'",)),
        ("empty", ("empty is no model that can be read", "give a folder of CTranslate2")),
        ("file", ("file is no model that can be read",)),
        ("whole", ("whole has neither model.safetensors nor pytorch_model.bin",)),
        ("empty.npz", ("empty.npz cannot be read as .npz: it is empty",)),
    ],
)
def test_what_is_no_model_is_said(call: Run, place: Path, origin: str, parts: tuple[str, ...]) -> None:
    call("convert", origin, "out").refused(1, *parts)
    assert not (place / "out").exists()


def test_a_missing_folder_may_look_like_a_name_in_the_hub(call: Run, place: Path) -> None:
    call("convert", "runs/none", "out").refused(1, "huggingface.co/api/models/runs/none", "nothing is fetched")


def test_a_hub_that_does_not_answer_is_one_line(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHARPBEAM_OFFLINE")
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # and no server listens
        monkeypatch.setenv("SHARPBEAM_MIRROR", f"http://127.0.0.1:{deaf.getsockname()[1]}")
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        began = time.monotonic()
        run("convert", "no/such", "out").refused(1, "cannot fetch https://huggingface.co/api/", "Connection refused")
    assert time.monotonic() - began < 15  # most of it is Python's start


def test_a_folder_with_several_models_names_them(call: Run, place: Path) -> None:
    for name in ("a.npz", "b.npz"):
        (place / "other" / name).write_bytes(b"")
    call("convert", "other", "out").refused(1, "other holds 2 models; give one of other/a.npz, other/b.npz")


def test_flags_that_cannot_be_meant_are_refused(call: Run, place: Path, tiny_model: Path) -> None:
    call("convert", "", "out").refused(2, "source is ''; it must be a folder")
    call("convert", tiny_model, "out").refused(1, "is a model of Sharpbeam already")
    call("convert", "whole", "out", "--quantization", "int4").refused(
        2, "quantization is 'int4'", "auto, int8 or float32"
    )
    call("convert", "whole", "out", "--source-spm", "none").refused(1, "cannot read none: No such file")


def test_a_place_that_cannot_be_written_is_said_before_the_model_is_read(call: Run, place: Path) -> None:
    call("convert", "none", "file/out").refused(1, "cannot write file/out", "file is no folder")
    call("convert", "none", "file").refused(1, "file is there and is no model folder of Sharpbeam")
    call("convert", "none", "").refused(1, ". is there and is no model folder")
    if os.geteuid():  # root may write everywhere
        (place / "locked").mkdir(mode=0o500)
        call("convert", "none", "locked/out").refused(1, "cannot write locked/out", "cannot be written to")


@pytest.mark.parametrize("config", [HUGGING_FACE, "[]", "{", '{"name": "a package of JavaScript"}'])
def test_only_a_folder_of_the_kind_that_is_written_is_replaced(call: Run, place: Path, config: str) -> None:
    """A model of another program that lies at TO is never lost, above all not FROM itself."""
    (place / "other" / "config.json").write_text(config)
    for origin in ("whole", "other"):
        call("convert", origin, "other", "--overwrite").refused(1, "other is there and is no model folder of Sharpbeam")
    assert (place / "other" / "config.json").read_text() == config


def test_a_model_folder_is_replaced_on_demand_only(call: Run, place: Path) -> None:
    config = place / "other" / "config.json"
    config.write_text(OURS)
    call("convert", "whole", "other").refused(1, "other is there already", "--overwrite to replace it")
    call("convert", "whole", "other", "--overwrite").refused(1, "whole has neither")  # so the place is no obstacle
    call("convert", "other/none", "other", "--overwrite").refused(1, "other holds other/none")
    assert json.loads(config.read_text()) == json.loads(OURS)


def test_int8_is_measured_on_a_text_without_a_preview(tiny_model: Path, tmp_path: Path, sentences: list[str]) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_model, folder)
    (line,) = measure_and_fit(folder, sources=sentences[:3], preview=False)
    assert line.startswith("Number type ") and not (folder / "preview.json").exists()
    (line,) = measure_and_fit(folder)  # 64 tokens
    assert line.startswith("No preview was fitted") and not (folder / "preview.json").exists()


def test_files_for_firefox_take_no_options_of_model_folders(call: Run, place: Path) -> None:
    call("convert", "de-en", "out", "--format", "firefox", "--overwrite").refused(2, "--overwrite is for model folders")
    call("convert", "de-en", "out", "--format", "firefox").refused(1, "hidden_dim is", "a transformer")
    assert not (place / "out").exists()
