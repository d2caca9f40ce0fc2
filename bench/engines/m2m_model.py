"""Small models of M2M100 and NLLB in folders as Hugging Face writes them, made without its packages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from sharpbeam.convert.formats.spm import read_spm

DIM, FFN, HEADS = 8, 8, 2
_BEGIN = ("<s>", "<pad>", "</s>", "<unk>")
_SPECIAL = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}


def write_m2m100(folder: Path, spm: Path) -> Path:
    """One layer on each side, with the languages of WMT21's models, which have the fewest; returns `folder`."""
    pieces = [piece for piece in read_spm(spm)[1] if piece not in _BEGIN]
    ids = {piece: i for i, piece in enumerate((*_BEGIN, *pieces))}
    _write(folder, spm, len(ids) + 8)
    _json(folder / "vocab.json", ids)
    facts = {"tokenizer_class": "M2M100Tokenizer", "language_codes": "wmt21", "src_lang": "de", "tgt_lang": "en"}
    _json(folder / "tokenizer_config.json", facts | _SPECIAL)
    return folder


def write_nllb(folder: Path, spm: Path, listed: bool) -> Path:
    """The same with three languages, in special_tokens_map.json if `listed`, else in tokenizer.json."""
    languages, first = ["deu_Latn", "eng_Latn", "fra_Latn"], len(read_spm(spm)[1]) + 1
    _write(folder, spm, first + len(languages) + 1)
    if listed:
        _json(folder / "special_tokens_map.json", _SPECIAL | {"additional_special_tokens": languages})
    else:
        added = [{"content": code, "id": first + i, "special": True} for i, code in enumerate((*languages, "<mask>"))]
        _json(folder / "tokenizer.json", {"version": "1.0", "added_tokens": added, "model": {"type": "BPE"}})
    facts = {"tokenizer_class": "NllbTokenizer", "src_lang": "deu_Latn", "tgt_lang": "eng_Latn"}
    _json(folder / "tokenizer_config.json", facts | {"legacy_behaviour": False} | _SPECIAL)
    return folder


def _write(folder: Path, spm: Path, vocab_size: int) -> None:
    """Everything but the words."""
    folder.mkdir()
    shutil.copy(spm, folder / "sentencepiece.bpe.model")
    draw = np.random.default_rng(0)
    tensors = {name: draw.normal(0, 1, shape).astype(np.float32) for name, shape in _shapes(vocab_size).items()}
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    facts: dict[str, Any] = {
        "model_type": "m2m_100",
        "vocab_size": vocab_size,
        "d_model": DIM,
        "is_encoder_decoder": True,
    }
    for side in ("encoder", "decoder"):
        facts |= {f"{side}_layers": 1, f"{side}_ffn_dim": FFN, f"{side}_attention_heads": HEADS}
    special = {"decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1, "bos_token_id": 0}
    _json(folder / "config.json", facts | special | {"activation_function": "relu", "scale_embedding": True})
    choices = {"num_beams": 5, "max_length": 200, "forced_bos_token_id": None, "bad_words_ids": [[1]]}
    _json(folder / "generation_config.json", special | choices | {"renormalize_logits": False, "suppress_tokens": None})


def _shapes(vocab_size: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {"model.shared.weight": (vocab_size, DIM)}

    def pair(name: str, *shape: int) -> None:
        shapes.update({f"{name}.weight": shape, f"{name}.bias": shape[:1]})

    for side in ("encoder", "decoder"):
        layer = f"model.{side}.layers.0"
        for attention in ("self_attn", "encoder_attn")[: 1 if side == "encoder" else 2]:
            for letter in ("q", "k", "v", "out"):
                pair(f"{layer}.{attention}.{letter}_proj", DIM, DIM)
            pair(f"{layer}.{attention}_layer_norm", DIM)
        pair(f"{layer}.fc1", FFN, DIM)
        pair(f"{layer}.fc2", DIM, FFN)
        pair(f"{layer}.final_layer_norm", DIM)
        pair(f"model.{side}.layer_norm", DIM)
    return shapes


def _json(path: Path, facts: dict[str, Any]) -> None:
    path.write_text(json.dumps(facts, ensure_ascii=False), encoding="utf-8")
