"""OPUS-MT tc-big: eos with a high id, one vocabulary or one for each side, the end forced at max_length."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.fairseq_models import randomize
from support.foreign import ENGLISH, demo_sentences, pieces_of, train_pieces

from sharpbeam import Translator
from sharpbeam.convert.readers.hugging_face.read import read_hugging_face

TEXTS = demo_sentences()[:8]


@pytest.fixture(params=[True, False], ids=["one vocabulary", "one for each side"])
def tc_big(transformers, tmp_path: Path, request) -> tuple[Path, Any]:
    import torch

    shared = request.param
    german = train_pieces(demo_sentences(), 160, unk_id=0, eos_id=1, bos_id=-1, pad_id=-1)
    english = train_pieces(ENGLISH.split(". "), 75, unk_id=0, eos_id=1, bos_id=-1, pad_id=-1, hard_vocab_limit=False)
    words = [pieces_of(german)[2:], pieces_of(english)[2:]]
    if shared:
        words = [list(dict.fromkeys(words[0] + words[1]))] * 2
    words = [[">>eng<<", *side[:50], "</s>", "<unk>", "<pad>", *side[50:]] for side in words]
    (tmp_path / "source.spm").write_bytes(german)
    (tmp_path / "target.spm").write_bytes(english)
    for name, side in zip(("vocab.json", "target_vocab.json"), words, strict=True):
        (tmp_path / name).write_text(json.dumps({piece: i for i, piece in enumerate(side)}), encoding="utf-8")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": not shared}))
    torch.manual_seed(3)
    sizes: dict[str, Any] = {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
    sizes |= {"encoder_layers": 3, "decoder_layers": 2, "encoder_ffn_dim": 80, "decoder_ffn_dim": 72, "d_model": 48}
    model: Any = transformers.MarianMTModel(
        transformers.MarianConfig(
            vocab_size=len(words[0]), decoder_vocab_size=len(words[1]), share_encoder_decoder_embeddings=shared,
            eos_token_id=51, forced_eos_token_id=51, pad_token_id=53, decoder_start_token_id=53,
            activation_function="relu", scale_embedding=True, max_position_embeddings=64, **sizes,
        )
    ).eval()  # fmt: skip
    randomize(model, 3)
    for name, value in {"bad_words_ids": [[53]], "num_beams": 4, "max_length": 16, "early_stopping": True}.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(tmp_path)
    return tmp_path, model


@pytest.mark.parametrize("beam", [1, 4])
def test_tokens_are_those_of_generate(tc_big: tuple[Path, Any], beam: int) -> None:
    import torch

    folder, model = tc_big
    found = read_hugging_face(folder)
    found.save(folder / "ours", "toy")
    ours = Translator(folder / "ours")
    search = ours.defaults.search
    assert (search.beam_size, search.max_length, search.early_stopping, search.forced_eos) == (4, 15, "true", True)
    assert found.config.tied_output and ours.loaded.model.eos_id == 51
    shared = found.source is found.target or len(found.source) == len(found.target)
    asked: dict[str, Any] = {"target_language": "eng"} if shared else {}
    texts = (
        TEXTS if shared else [f">>eng<< {text}" for text in TEXTS]
    )  # with two vocabularies a text has its tag itself
    answers = ours.translate(texts, beam_size=beam, early_stopping="true" if beam > 1 else "false", **asked)
    assert len({answer.tokens for answer in answers}) > 4
    for text, answer in zip(TEXTS, answers, strict=True):
        ids = [0, *ours.loaded.source.encode(text), 51]
        wanted = model.generate(input_ids=torch.tensor([ids]), num_beams=beam, early_stopping=beam > 1)[0].tolist()
        assert list(answer.tokens) == [ours.loaded.target.piece(token) for token in wanted[1:] if token not in (51, 53)]
