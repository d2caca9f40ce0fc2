"""Weights that were found sound are not hashed again; whatever changed is."""

from __future__ import annotations

import json
import os
import time

import numpy as np
import pytest

from sharpbeam.errors import ModelError
from sharpbeam.models.gru.config import GruConfig
from sharpbeam.storage import cache as notes
from sharpbeam.storage import checked
from sharpbeam.storage import model_folder as folder
from sharpbeam.storage.model_folder import read_config, read_tensors, save_model

TINY = GruConfig(5, 5, 3, 1, 2, 3, attention_dim=2, hidden_dim=3, shared_embedding=True, tied_output=True)


@pytest.fixture
def model(tmp_path, make_tensors, monkeypatch):
    """A model that has rested, and a cache of its own."""
    monkeypatch.setenv(notes.HOME, str(tmp_path / "cache"))
    monkeypatch.setattr(checked, "RESTED", -1.0)
    save_model(tmp_path / "model", TINY, make_tensors(TINY), {"source.spm": b"pieces"}, "# card\n")
    return tmp_path / "model"


@pytest.fixture
def hashed(monkeypatch):
    """The files that are hashed."""
    paths, digest = [], folder._digest
    monkeypatch.setattr(folder, "_digest", lambda path: paths.append(path) or digest(path))
    return paths


def read(model):
    return read_tensors(model, read_config(model))


def records(tmp_path):
    return list((tmp_path / "cache").rglob("*.json"))


def test_the_second_load_hashes_nothing(model, hashed):
    first, second = read(model), read(model)
    assert len(hashed) == 1
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_a_changed_byte_is_seen_though_size_and_time_are_the_same(model, hashed):
    read(model)
    path = model / "model.safetensors"
    before, data = path.stat(), bytearray(path.read_bytes())
    data[-1] ^= 1
    time.sleep(0.02)  # a tick of the file system's clock
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ModelError, match="is not the file that was saved"):
        read(model)
    assert len(hashed) == 2


def test_a_file_put_in_its_place_is_hashed(model, hashed):
    read(model)
    path = model / "model.safetensors"
    path.with_suffix(".new").write_bytes(path.read_bytes())
    os.replace(path.with_suffix(".new"), path)
    read(model)
    assert len(hashed) == 2


def test_another_digest_in_the_config_is_seen(model):
    read(model)
    facts = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(facts | {folder.DIGEST: "0" * 64}))
    with pytest.raises(ModelError, match="is not the file that was saved"):
        read(model)


def test_weights_that_are_not_finite_are_never_remembered(model, tmp_path):
    path = model / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-4] + np.float32(np.nan).tobytes())
    facts = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(facts | {folder.DIGEST: folder._digest(path)}))
    for _ in range(2):
        with pytest.raises(ModelError, match="not finite"):
            read(model)
    assert not records(tmp_path)


def test_a_file_that_was_just_written_is_not_remembered(model, tmp_path, monkeypatch):
    monkeypatch.setattr(checked, "RESTED", 60.0)
    read(model)
    assert not records(tmp_path)


@pytest.mark.parametrize("record", ["", "7", "[]", "{}", '{"state": [], "facts": {}}', "[" * 900, "\xff"])
def test_a_record_that_is_none_is_as_if_it_were_not_there(model, hashed, tmp_path, record):
    read(model)
    (path,) = records(tmp_path)
    path.write_bytes(record.encode("latin-1"))
    read(model)
    assert len(hashed) == 2


def test_a_cache_that_cannot_be_written_does_no_harm(model, hashed, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for home in (str(tmp_path / "file"), ""):
        monkeypatch.setenv(notes.HOME, home)
        read(model)
    assert len(hashed) == 2
