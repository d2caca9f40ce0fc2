"""Small models as other programs write them, with random weights and SentencePiece models of the demo's sentences."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.foreign import ENGLISH, demo_sentences, flatten, pieces_of, save_m2m, train_pieces
from support.hugging_face import convert

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def transformers():
    pytest.importorskip("torch", reason="PyTorch is not installed")
    return pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture(scope="session")
def marian(transformers, tmp_path_factory) -> Path:
    """A folder of MarianMT: two SentencePiece models, one vocab.json, a bias for every word, padding banned."""
    import torch

    folder = tmp_path_factory.mktemp("marian")
    german = train_pieces(demo_sentences(), 200, unk_id=1, eos_id=0, bos_id=-1, pad_id=-1)
    english = train_pieces(ENGLISH.split(". "), 80, unk_id=1, eos_id=0, bos_id=-1, pad_id=-1, hard_vocab_limit=False)
    pieces = list(dict.fromkeys(["</s>", "<unk>", ">>eng<<", *pieces_of(german), *pieces_of(english), "<pad>"]))
    (folder / "source.spm").write_bytes(german)
    (folder / "target.spm").write_bytes(english)
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"source_lang": "de", "target_lang": "en"}))
    torch.manual_seed(5)
    pad = len(pieces) - 1
    config = transformers.MarianConfig(
        vocab_size=len(pieces),
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=40,
        max_position_embeddings=128,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=None,
        scale_embedding=True,
        activation_function="swish",
        init_std=0.4,
    )
    model = transformers.MarianMTModel(config).eval()
    flatten(model, 0.5)
    with torch.no_grad():
        model.final_logits_bias.normal_(0.0, 0.5)
        model.final_logits_bias[0, 0] = 3.5
        model.final_logits_bias[0, pad] = 4.0  # banned, so it must never be chosen, though it is likely
    model.generation_config.bad_words_ids = [[pad]]
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def m2m(transformers, tmp_path_factory) -> Path:
    """A folder of M2M100."""
    import torch

    folder = tmp_path_factory.mktemp("m2m")
    shared = train_pieces([*demo_sentences(), *ENGLISH.split(". ")], 250, unk_id=0, bos_id=1, eos_id=2, pad_id=-1)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(shared)[3:]]
    (folder / "sentencepiece.bpe.model").write_bytes(shared)
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
    facts = {"tokenizer_class": "M2M100Tokenizer", "language_codes": "m2m100", "src_lang": "de", "tgt_lang": "en"}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    torch.manual_seed(6)
    save_m2m(transformers, folder, len(pieces) + 100 + 8)
    return folder


@pytest.fixture(scope="session")
def nllb(transformers, tmp_path_factory) -> Path:
    """A folder of NLLB: the SentencePiece model, and tokenizer.json with three languages."""
    import torch

    folder = tmp_path_factory.mktemp("nllb")
    shared = train_pieces(
        [*demo_sentences(), *ENGLISH.split(". ")], 250, unk_id=0, bos_id=1, eos_id=2, pad_id=-1, model_type="bpe"
    )
    (folder / "sentencepiece.bpe.model").write_bytes(shared)
    languages = ["deu_Latn", "eng_Latn", "fra_Latn"]
    tokenizer = transformers.NllbTokenizer.from_pretrained(
        folder, src_lang="deu_Latn", tgt_lang="eng_Latn", extra_special_tokens=languages
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(7)
    save_m2m(transformers, folder, len(tokenizer) + 2)
    return folder


@pytest.fixture(scope="session")
def ours(marian, tmp_path_factory):
    return convert(marian, tmp_path_factory.mktemp("converted") / "marian")


@pytest.fixture(scope="session")
def theirs(transformers, marian):
    tokenizer = transformers.MarianTokenizer.from_pretrained(marian)
    return tokenizer, transformers.MarianMTModel.from_pretrained(marian).eval()
