"""Folders of T5 and its relatives as `transformers` writes them: random weights, and tokenizers trained here."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.foreign import train_pieces

# Shapes that tell the facts apart: heads that are no part of the width, few buckets, distances that sentences reach.
SHAPE: dict[str, Any] = {
    "d_model": 40,
    "d_kv": 12,
    "d_ff": 56,
    "num_layers": 3,
    "num_decoder_layers": 2,
    "num_heads": 5,
    "relative_attention_num_buckets": 10,
    "relative_attention_max_distance": 14,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "T5": {"feed_forward_proj": "relu"},
    "T5 v1.1": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "num_decoder_layers": 3},
    "mT5": {"d_kv": 7, "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128},
    "umT5": {"num_heads": 3, "num_decoder_layers": 3},  # with more of them than of the encoder transformers 5 fails
    "MADLAD-400": {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "d_kv": 16},
}
LANGUAGES = ("de", "en", "zh_Hant")


def write_t5(folder: Path, lines: Sequence[str], family: str, seed: int = 1, size: int = 300, **facts: Any) -> Any:
    """A folder of one of FAMILIES with `size` pieces; returns the model in evaluation mode."""
    import torch
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    madlad = family == "MADLAD-400"
    special = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1}
    if not madlad:
        special = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    symbols = [f"<2{code}>" for code in LANGUAGES] if madlad else []
    spm = train_pieces(list(lines), size, **special, user_defined_symbols=symbols)
    (folder / "spiece.model").write_bytes(spm)
    text_of_error = {"tokenizer_class": "T5Tokenizer", "extra_ids": 0 if madlad else 100} | (
        {"pad_token": "<s>"} if madlad else {}
    )
    (folder / "tokenizer_config.json").write_text(json.dumps(text_of_error))
    ids = {"pad_token_id": 1, "decoder_start_token_id": 0, "eos_token_id": 2}
    if not madlad:
        ids = {"pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 1}
    name = {"mT5": "MT5", "umT5": "UMT5"}.get(family, "T5")
    config = getattr(transformers, f"{name}Config")(
        vocab_size=size + (0 if madlad else 100) + 4, **(SHAPE | FAMILIES[family] | ids | facts)
    )
    model: Any = getattr(transformers, f"{name}ForConditionalGeneration")(config).eval()
    own = family in ("T5 v1.1", "MADLAD-400", "mT5")
    torch.manual_seed(seed)
    with torch.no_grad():
        if own:
            model.lm_head.weight = torch.nn.Parameter(torch.empty_like(model.shared.weight))
        for place, parameter in model.named_parameters():
            norm = "layer_norm" in place
            width = 1.0 if parameter.ndim == 1 or "relative" in place or "shared" in place else parameter.shape[1]
            parameter.normal_(1.0 if norm else 0.0, 0.2 if norm else width**-0.5)
            if place.endswith("Attention.q.weight"):  # T5 does not scale queries
                parameter.mul_(config.d_kv**-0.5)
            if place.endswith(("o.weight", "wo.weight")):  # or the next token would be the last one again
                parameter.mul_(2.5)
        model.decoder.final_layer_norm.weight.mul_(4.0)
        output = model.lm_head if own else model.shared
        output.weight[ids["eos_token_id"]].mul_((2 * math.log(config.vocab_size)) ** 0.5 / 1.75)  # answers end
        output.weight[ids["decoder_start_token_id"]].mul_(0.3)  # which `generate` counts in what is repeated, we do not
    model.save_pretrained(folder)
    if madlad:
        model.save_pretrained(folder / "whole")  # transformers 5 misreads the names of the other
        _drop_shared(folder)
    return model


def _drop_shared(folder: Path) -> None:
    """Name the embedding as the files of MADLAD-400 do."""
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    tensors["decoder.embed_tokens.weight"] = tensors.pop("shared.weight")
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    path = folder / "config.json"  # as older versions wrote it
    facts = json.loads(path.read_text())
    facts.pop("scale_decoder_outputs", None)
    path.write_text(json.dumps(facts | {"tie_word_embeddings": False}))
