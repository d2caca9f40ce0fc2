"""Broken and hostile files of every format, some hundred of each; `tests/parity/imports.py` has ten thousand."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the bounds of memory and time are Linux's")
def test_every_broken_file_is_refused_or_read(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT))
    from parity.imports import formats, fuzz

    result = fuzz(100, seed=1)
    marian = {"Marian", "Marian, binary", "SentencePiece"}
    marian |= {"Bergamot, int8", "Bergamot, options", "Bergamot, shortlist"}
    assert marian | {"safetensors", "config.json", "vocab.json"} <= result.keys()
    assert {"M2M100, vocab.json", "NLLB, tokenizer.json", "NLLB, special_tokens_map.json"} <= result.keys()
    assert find_spec("torch") is None or "pytorch.bin, zip" in result
    assert find_spec("ctranslate2") is None or {"CTranslate2 int8", "CTranslate2, config.json"} <= result.keys()
    families = {"mBART-50, config.json", "T5, spiece.model"}
    assert find_spec("transformers") is None or families <= result.keys()
    for name, outcome in result.items():
        assert not outcome.wrong, (name, outcome.wrong[:3])
        assert outcome.refused > (10 if name == "Bergamot, options" else 60), name  # most of it may be anything
    assert formats(tmp_path)  # and they can be made again


def test_a_reader_that_unpickles_would_be_seen(monkeypatch, tmp_path):
    """The watch sees what a careless reader would do."""
    import pickle

    monkeypatch.syspath_prepend(str(ROOT))
    from fuzz import hostile_files as hostile
    from parity import imports

    def careless(folder: str) -> None:
        pickle.loads((Path(folder) / "pytorch_model.bin").read_bytes())

    monkeypatch.setattr(imports, "read_model", careless)
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"a": hostile.Harm(len, "x")}))
    with imports._watched() as events:
        outcome = imports.Outcome()
        imports._read(tmp_path, 0, outcome, events)
    assert "pickle.find_class" in outcome.wrong[-1]
