"""Folders of mBART and SMaLL-100 as `transformers` writes them: random weights, and tokenizers trained here."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.foreign import pieces_of, train_pieces

SHAPE: dict[str, Any] = {
    "d_model": 40,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 5,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 52,
    "decoder_ffn_dim": 36,
    "max_position_embeddings": 90,
}
SMALL_100 = SHAPE | {"encoder_layers": 12, "decoder_layers": 3}


def write_mbart(folder: Path, lines: Sequence[str], fifty: bool, seed: int = 1, size: int = 300, **facts: Any) -> Any:
    """A folder of mBART-50, or of mBART-cc25 that translates into Romanian; returns the model."""
    from transformers import MBartConfig, MBartForConditionalGeneration

    folder.mkdir(parents=True, exist_ok=True)
    spm = train_pieces(list(lines), size, unk_id=0, bos_id=1, eos_id=2, pad_id=-1)
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    name = "MBart50Tokenizer" if fifty else "MBartTokenizer"
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name, "src_lang": "en_XX"}))
    first = len(pieces_of(spm)) + 1
    fields: dict[str, Any] = {"scale_embedding": True, "activation_function": "relu" if fifty else "gelu"}
    fields |= {"decoder_start_token_id": 2 if fifty else first + 19, "max_length": 30}
    fields, generation = _split(SHAPE | fields | facts)
    config = MBartConfig(vocab_size=first + (52 if fifty else 25) + 1, **fields)
    return _save(MBartForConditionalGeneration(config), folder, seed, generation)


def write_small100(folder: Path, lines: Sequence[str], seed: int = 1, size: int = 300, **facts: Any) -> Any:
    """A folder of SMaLL-100: M2M100 with a deep encoder, whose sources name the target; returns the model."""
    from transformers import M2M100Config, M2M100ForConditionalGeneration

    folder.mkdir(parents=True, exist_ok=True)
    spm = train_pieces(list(lines), size, unk_id=0, bos_id=1, eos_id=2, pad_id=-1)
    pieces = ["<s>", "<pad>", "</s>", "<unk>", *pieces_of(spm)[3:]]
    (folder / "sentencepiece.bpe.model").write_bytes(spm)
    (folder / "vocab.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}), encoding="utf-8")
    tokenizer = {"tokenizer_class": "SMALL100Tokenizer", "language_codes": "m2m100", "tgt_lang": "en"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    fields, generation = _split(SMALL_100 | facts)
    config = M2M100Config(vocab_size=len(pieces) + 100 + 8, **fields)
    return _save(M2M100ForConditionalGeneration(config), folder, seed, generation)


def write_tc_big(
    folder: Path,
    sources: Sequence[str],
    targets: Sequence[str],
    shared: bool,
    seed: int = 1,
    sizes: tuple[int, int] = (300, 300),
    **facts: Any,
) -> Any:
    """A folder of MarianMT as OPUS-MT tc-big has it, with one vocabulary or one for each side; returns the model."""
    from transformers import MarianConfig, MarianMTModel

    folder.mkdir(parents=True, exist_ok=True)
    words = []
    for name, lines, size in zip(("source.spm", "target.spm"), (sources, targets), sizes, strict=True):
        spm = train_pieces(list(lines), size, unk_id=0, eos_id=1, bos_id=-1, pad_id=-1, hard_vocab_limit=False)
        (folder / name).write_bytes(spm)
        words.append(pieces_of(spm)[2:])
    if shared:
        words = [list(dict.fromkeys(words[0] + words[1]))] * 2
    words = [[">>eng<<", *side[:50], "</s>", "<unk>", "<pad>", *side[50:]] for side in words]
    for name, side in zip(("vocab.json", "target_vocab.json"), words, strict=True):
        (folder / name).write_text(json.dumps({piece: i for i, piece in enumerate(side)}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"separate_vocabs": not shared}))
    special = {"eos_token_id": 51, "forced_eos_token_id": 51, "pad_token_id": 53, "decoder_start_token_id": 53}
    fields, generation = _split(SHAPE | special | {"activation_function": "relu", "scale_embedding": True} | facts)
    vocabularies = {"vocab_size": len(words[0]), "decoder_vocab_size": len(words[1])}
    config = MarianConfig(**vocabularies, share_encoder_decoder_embeddings=shared, **fields)
    return _save(MarianMTModel(config), folder, seed, generation | {"bad_words_ids": [[53]]})


_GENERATION = (  # `end` is an argument of `randomize`
    "forced_bos_token_id", "max_length", "min_length", "num_beams", "length_penalty", "no_repeat_ngram_size",
    "early_stopping", "end",
)  # fmt: skip


def _split(facts: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts of the config, and those of generation_config.json."""
    return {n: v for n, v in facts.items() if n not in _GENERATION}, {n: facts[n] for n in _GENERATION if n in facts}


def _save(model: Any, folder: Path, seed: int, generation: dict[str, Any]) -> Any:
    """Write the model with random weights, and what `generation` says."""
    randomize(model, seed, generation.pop("end", 6.0))
    for name, value in generation.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    return model.eval()


def randomize(model: Any, seed: int, end: float) -> None:
    """Random weights in all tensors, so that none can stand for another, with answers that vary.

    `end` is about how much the logit of eos is above that of others.
    """
    import torch

    draw, post = torch.Generator().manual_seed(seed), model.config.model_type == "marian"
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "norm" in name:  # of any sign: else the last token is said again and again, where embeddings are tied
                tensor.normal_(0.0, 0.2, generator=draw)
                if name.endswith("weight"):
                    tensor.add_(tensor.sign())
            elif name.endswith("bias"):
                tensor.normal_(0.0, 0.1, generator=draw)
            elif "shared" in name or "embed_tokens" in name:
                tensor.normal_(0.0, 0.4, generator=draw)
            elif tensor.requires_grad:  # no sines; attention and positions weigh most, so that more than the last token
                # decides, but a sum before a norm must not drown what came in
                large = "positions" in name or (not post and ("out_proj" in name or "v_proj" in name))
                tensor.normal_(0.0, 1.0 if large else 0.25, generator=draw)
        eos = model.config.eos_token_id
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(0.0, 0.3, generator=draw)
            model.final_logits_bias[0, eos] = end
        else:  # eos points where the last norm adds a constant
            added = model.model.decoder.layer_norm.bias
            added.normal_(0.0, 0.4, generator=draw)
            model.model.shared.weight[eos] = end * added / (added * added).sum()
