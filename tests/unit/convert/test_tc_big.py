"""OPUS-MT tc-big: eos with a high id, one vocabulary or one for each side, the end forced at max_length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.fairseq_models import write_tc_big
from support.foreign import ENGLISH, demo_sentences

from sharpbeam import Translator
from sharpbeam.convert.readers.hugging_face.read import read_hugging_face

TEXTS = demo_sentences()[:8]


@pytest.fixture(params=[True, False], ids=["one vocabulary", "one for each side"])
def tc_big(transformers, tmp_path: Path, request) -> tuple[Path, Any]:
    own = {"num_beams": 4, "max_length": 16, "early_stopping": True}
    return tmp_path, write_tc_big(tmp_path, demo_sentences(), ENGLISH.split(". "), request.param, 3, (160, 75), **own)


@pytest.mark.parametrize("beam", [1, 4])
def test_tokens_are_those_of_generate(tc_big: tuple[Path, Any], beam: int) -> None:
    import torch

    folder, model = tc_big
    result = read_hugging_face(folder)
    result.save(folder / "ours", "toy")
    ours = Translator(folder / "ours")
    search = ours.defaults.search
    assert (search.beam_size, search.max_length, search.early_stopping, search.forced_eos) == (4, 15, "true", True)
    assert result.config.tied_output and ours.loaded.model.eos_id == 51
    shared = result.source is result.target or len(result.source) == len(result.target)
    settings: dict[str, Any] = {"target_language": "eng"} if shared else {}
    # With two vocabularies a text has its tag itself.
    texts = TEXTS if shared else [f">>eng<< {text}" for text in TEXTS]
    settings |= {"early_stopping": "true" if beam > 1 else "false", "no_repeat_ngram_size": 2}
    answers = ours.translate(texts, raw=True, beam_size=beam, **settings)
    assert len({answer.tokens for answer in answers}) > 4
    for text, answer in zip(TEXTS, answers, strict=True):
        ids = [0, *ours.loaded.source.encode(text), 51]
        options = {"num_beams": beam, "early_stopping": beam > 1, "no_repeat_ngram_size": 2}
        expected = model.generate(input_ids=torch.tensor([ids]), **options)[0].tolist()
        assert list(answer.tokens) == [
            ours.loaded.target.piece(token) for token in expected[1:] if token not in (51, 53)
        ]
