"""T5, flan-T5, mT5, umT5 and MADLAD-400: the computation of `transformers`, in TransformerConfig's words.

A fact that they would heed and we cannot express is refused by name (models/t5, mt5, umt5).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.convert.formats.weights import Tensor, Tensors, Weights, values
from sharpbeam.convert.readers.hugging_face.checkpoint import Checkpoint
from sharpbeam.convert.readers.hugging_face.generation import special_ids
from sharpbeam.convert.readers.hugging_face.tokens import by_id, id_of, tokenizer_facts
from sharpbeam.convert.readers.tokens import SENTINEL, TokenLists, Tokens
from sharpbeam.convert.readers.transformer import add_tensors, in_layers
from sharpbeam.errors import ModelError

_T5 = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 6,
    "num_heads": 8,
    "relative_attention_num_buckets": 32,
    "relative_attention_max_distance": 128,
    "layer_norm_epsilon": 1e-6,
    "feed_forward_proj": "relu",
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 0,
}
_MT5 = _T5 | {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu"}
DEFAULTS: dict[str, dict[str, Any]] = {"t5": _T5, "mt5": _MT5, "umt5": _MT5}
Activation = Literal["relu", "gelu", "gelu_tanh", "swish"]
_ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "swish",
    "swish": "swish",
}
# feed_forward_proj -> activation, and whether another product gates it; "gated-gelu" is by tanh
_FEED_FORWARD: dict[str, tuple[Activation, bool]] = {
    **{name: (activation, False) for name, activation in _ACTIVATIONS.items()},
    **{f"gated-{name}": (activation, True) for name, activation in _ACTIVATIONS.items()},
    "gated-gelu": ("gelu_tanh", True),
}
_EMBEDDINGS = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight")
_HEAD = _EMBEDDINGS[-1]
_CLASSES = ("T5Tokenizer", "T5TokenizerFast", "MT5Tokenizer", "MT5TokenizerFast", "TokenizersBackend")
_RELATIVE = "relative_attention_bias.weight"
_NAMES = {
    "encoder_norm": "encoder.final_layer_norm.weight",
    "decoder_norm": "decoder.final_layer_norm.weight",
    "encoder_position_bias": f"encoder.block.0.layer.0.SelfAttention.{_RELATIVE}",
    "decoder_position_bias": f"decoder.block.0.layer.0.SelfAttention.{_RELATIVE}",
    **in_layers(
        "{side}.block.{layer}.layer.",
        {
            "attention.norm": "0.layer_norm.weight",
            "attention.qkv": "0.SelfAttention.<q|k|v>.weight",
            "attention.out": "0.SelfAttention.o.weight",
            "attention.position_bias": f"0.SelfAttention.{_RELATIVE}",
            "cross.norm": "1.layer_norm.weight",
            "cross.query": "1.EncDecAttention.q.weight",
            "cross.key_value": "1.EncDecAttention.<k|v>.weight",
            "cross.out": "1.EncDecAttention.o.weight",
            "encoder.ffn.norm": "1.layer_norm.weight",
            "encoder.ffn.up": "1.DenseReluDense.{up}.weight",
            "encoder.ffn.down": "1.DenseReluDense.wo.weight",
            "decoder.ffn.norm": "2.layer_norm.weight",
            "decoder.ffn.up": "2.DenseReluDense.{up}.weight",
            "decoder.ffn.down": "2.DenseReluDense.wo.weight",
        },
    ),
}


def read_t5(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Tensor], Tokens]:
    """Config, tensors and tokens, as `Reader`, of T5 and its relatives."""
    facts = checkpoint.facts
    facts.require("tie_encoder_decoder", [False])
    sizes, tensors = _T5Reader(checkpoint.kind, facts, checkpoint.weights).read()
    special = special_ids(facts, checkpoint.generation)
    return sizes, tensors, _read_tokens(checkpoint.folder, sizes["target_vocab_size"], special)


class _T5Reader:
    """The config and the weights of one model, and our tensors."""

    def __init__(self, kind: str, facts: Facts, weights: Weights) -> None:
        self.kind, self.facts, self.weights, self._tensors = kind, facts, weights, Tensors(weights)

    def read(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """The facts of TransformerConfig except tokens and languages, and all tensors.

        Raises ModelError if a tensor is missing, of another shape, or left over.
        """
        facts, w, t = self.facts, self.weights, self._tensors
        activation, gated = facts.choice("feed_forward_proj", _FEED_FORWARD)
        facts.require("dense_act_fn", [name for name, meaning in _ACTIVATIONS.items() if meaning == activation])
        facts.require("is_gated_act", [gated])
        shape = facts.integer("vocab_size"), facts.integer("d_model")
        sizes = t.add_embeddings(_EMBEDDINGS, _EMBEDDINGS, (_HEAD, *_EMBEDDINGS), (shape, shape)) | {
            "head_dim": facts.integer("d_kv"),
            "scaled_attention": False,
            "norm_kind": "rms",
            "norm_epsilon": facts.number("layer_norm_epsilon"),
            "activation": activation,
            "gated_ffn": gated,
            "positions": "relative" if self.kind == "umt5" else "relative-shared",
            "relative_buckets": facts.integer("relative_attention_num_buckets"),
            "relative_distance": facts.integer("relative_attention_max_distance"),
            "attention_bias": False,
            "ffn_bias": False,
            "scaled_embedding": False,
        }
        layers = "num_layers" if facts.get("num_decoder_layers") is None else "num_decoder_layers"
        for side, depth in (("encoder", "num_layers"), ("decoder", layers)):
            sizes[f"{side}_layers"] = facts.integer(depth)
            sizes[f"{side}_heads"], sizes[f"{side}_ffn_dim"] = facts.integer("num_heads"), facts.integer("d_ff")
        for name in _EMBEDDINGS[:-1]:
            if name in w and not np.array_equal(w.whole(name), values(t["target_embedding"])):
                raise ModelError(f"{w.path}: {name} is another matrix; T5 has one embedding for both sides.")
        t["output_bias"] = np.zeros(shape[0], np.float32)
        up = "<wi_0|wi_1>" if gated else "wi"
        add_tensors(t, sizes, {ours: theirs.replace("{up}", up) for ours, theirs in _NAMES.items()})
        w.ignore(f"decoder.block.0.layer.1.EncDecAttention.{_RELATIVE}")  # of old files; no version reads it
        w.check_all_taken()
        if self._scaled_output():
            t["decoder_norm.weight"] = values(t["decoder_norm.weight"]) * np.float32(shape[1] ** -0.5)
        return sizes, t

    def _scaled_output(self) -> bool:
        """Whether hidden vectors are divided by sqrt(d_model) before the output matrix; we scale the last norm.

        T5 v1.0 is and v1.1 is not, which config.json tells by tie_word_embeddings; mT5 never is.
        """
        facts = self.facts
        if facts.get("scale_decoder_outputs") is not None:
            return facts.flag("scale_decoder_outputs")
        return self.kind != "mt5" and (facts.get("tie_word_embeddings") is None or facts.flag("tie_word_embeddings"))


def _read_tokens(folder: Path, size: int, special: Mapping[str, int]) -> Tokens:
    """The tokens of the model in `folder`, for `size` rows of its embedding; `special` lacks unk. Raises ModelError.

    They are those of a SentencePiece model. After its pieces there are sentinels <extra_id_0>, ... (100, unless
    tokenizer_config.json has another number), the last of them first. Those of MADLAD-400 have tags <2de> of target
    languages among the pieces.
    """
    tokenizer = tokenizer_facts(folder, {"extra_ids": 100})
    if tokenizer.text("tokenizer_class"):
        tokenizer.choice("tokenizer_class", dict.fromkeys((*_CLASSES, "PreTrainedTokenizerFast"), True))
    path = folder / "spiece.model"
    if not path.is_file():
        raise ModelError(f"{folder} has no spiece.model; copy that of the model that it was made from into the folder.")
    spm, pieces = read_spm(path)
    ids = {piece: token for token, piece in enumerate(pieces)}
    extra = tokenizer.integer("extra_ids")
    if f"{SENTINEL}0>" not in ids and len(pieces) + extra <= size:
        ids |= {f"{SENTINEL}{extra - 1 - i}>": len(pieces) + i for i in range(extra)}
    all_pieces = by_id(ids, size)
    special = {"unk_id": id_of(path, ids, tokenizer.text("unk_token") or "<unk>"), **special}
    lists = TokenLists(folder, all_pieces, all_pieces, spm, spm)
    return lists.tokens(special, lists.tags(shared=True))
