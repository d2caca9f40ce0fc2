"""The number type that auto means is measured when a model is converted or trained, and kept with the model."""

from __future__ import annotations

import json
import shutil

import pytest

from sharpbeam import Translator
from sharpbeam.decoding.loading import load_model
from sharpbeam.errors import InputError, ModelError
from sharpbeam.report import precision
from sharpbeam.report.facts import describe_model
from sharpbeam.report.precision import check_precision
from sharpbeam.storage.precision import FILE, read_precision


@pytest.fixture
def folder(tiny_model, tmp_path):
    return shutil.copytree(tiny_model, tmp_path / "model")


def test_the_evidence_is_kept_with_the_model(folder):
    found = check_precision(folder)
    assert found == read_precision(folder)
    assert found.compute_type in (found.tried[-1].compute_type, "float32")
    assert 0.3 < found.tried[0].agreement <= 1 and found.tried[0].lost >= 0
    assert found.sentences > 50 and "sample sentences" in found.text
    assert f"at {found.tried[0].agreement:.2%} of {found.positions} positions" in describe_model(folder)["compute_type"]


def test_auto_goes_by_it(folder, sentences, monkeypatch):
    monkeypatch.setattr(precision, "MOST_LOSS", -1.0)  # so that every type loses too much
    found = check_precision(folder, sentences[:5])
    assert [one.compute_type for one in found.tried] == ["int8", "int16"]
    assert found.compute_type == "float32" and found.sentences == 5
    assert found.tried[1].lost <= found.tried[0].lost and found.tried[1].agreement >= found.tried[0].agreement
    monkeypatch.delenv("SHARPBEAM_EXACT", raising=False)
    assert load_model(folder).machine.compute_type == "float32"
    facts = json.loads((folder / FILE).read_text())
    (folder / FILE).write_text(json.dumps(facts | {"weights": "others"}))
    assert load_model(folder).machine.compute_type == "int8"
    (folder / FILE).write_text(json.dumps(facts | {"compute_type": "int4"}))
    with pytest.raises(ModelError, match=r"precision\.json: compute_type is 'int4'; it must be int8"):
        load_model(folder)
    (folder / FILE).write_text("[]")
    with pytest.raises(ModelError, match=r"precision\.json: format_version is None"):
        load_model(folder)


def test_references_add_bleu(folder, sentences):
    pytest.importorskip("sacrebleu")
    translator = Translator(folder, exact=True, beam_size=1, max_length=64)
    wanted = [one.text for one in translator.translate(sentences[:10])]
    found = check_precision(folder, sentences[:10], wanted)
    assert found.bleu == pytest.approx(100)
    assert found.tried[0].bleu is not None and "BLEU" in found.summary()
    with pytest.raises(InputError, match="there are 1 references for 2 texts"):
        check_precision(folder, sentences[:2], wanted[:1])
    with pytest.raises(InputError, match="no sentence"):
        check_precision(folder, [" "])
