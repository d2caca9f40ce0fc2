"""The number type that auto means is measured when a model is converted or trained, and kept with the model."""

from __future__ import annotations

import json
import shutil

import pytest

from sharpbeam.decoding.loading import load_model
from sharpbeam.errors import InputError, ModelError
from sharpbeam.fit import new_model
from sharpbeam.fit.new_model import check_precision
from sharpbeam.report.facts import describe_model
from sharpbeam.storage.records import PRECISION, read_precision


@pytest.fixture
def folder(tiny_model, tmp_path):
    return shutil.copytree(tiny_model, tmp_path / "model")


def test_the_evidence_is_kept_with_the_model(folder):
    result = check_precision(folder)
    assert result == read_precision(folder)
    assert result.compute_type in (result.tried[-1].compute_type, "float32")
    assert 0.3 < result.tried[0].agreement <= 1 and result.tried[0].lost >= 0
    assert result.sentences > 50 and "sample sentences" in result.text
    assert (
        f"at {result.tried[0].agreement:.2%} of {result.positions} positions" in describe_model(folder)["compute_type"]
    )


def test_auto_goes_by_it(folder, sentences, monkeypatch):
    monkeypatch.setattr(new_model, "MOST_LOSS", -1.0)  # so that every type loses too much
    result = check_precision(folder, sentences[:5])
    assert [one.compute_type for one in result.tried] == ["int8", "int16"]
    assert result.compute_type == "float32" and result.sentences == 5
    assert result.tried[1].lost <= result.tried[0].lost and result.tried[1].agreement >= result.tried[0].agreement
    monkeypatch.delenv("SHARPBEAM_EXACT", raising=False)
    assert load_model(folder).machine.compute_type == "float32"
    facts = json.loads((folder / PRECISION).read_text())
    (folder / PRECISION).write_text(json.dumps(facts | {"weights": "others"}))
    assert load_model(folder).machine.compute_type == "int8"
    (folder / PRECISION).write_text(json.dumps(facts | {"compute_type": "int4"}))
    with pytest.raises(ModelError, match=r"precision\.json: compute_type is 'int4'; it must be int8"):
        load_model(folder)
    (folder / PRECISION).write_text("[]")
    with pytest.raises(ModelError, match=r"precision\.json is not a JSON object but list"):
        load_model(folder)


def test_text_without_a_sentence_is_refused(folder):
    with pytest.raises(InputError, match="no sentence"):
        check_precision(folder, [" "])
