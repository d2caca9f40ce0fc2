"""T5, flan-T5, mT5, umT5 and MADLAD-400: what the classes of `transformers` compute, in TransformerConfig's words.

A fact that they would heed and we cannot say is refused by name (models/t5, mt5, umt5).
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.weights import Tensor, Tensors, Weights, values
from sharpbeam.convert.readers.hugging_face.checkpoint import Checkpoint
from sharpbeam.convert.readers.hugging_face.generation import special_ids
from sharpbeam.convert.readers.hugging_face.t5_words import read_t5_words
from sharpbeam.convert.readers.hugging_face.words import Words
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
_SIDES: tuple[Literal["encoder", "decoder"], ...] = ("encoder", "decoder")
_EMBEDDINGS = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
_HEAD = "lm_head.weight"
_RELATIVE = "relative_attention_bias.weight"


def read_t5(checkpoint: Checkpoint) -> tuple[dict[str, Any], dict[str, Tensor], Words]:
    """The parts that `Family.read` is to give, of T5 and its relatives."""
    facts = checkpoint.facts
    facts.require("tie_encoder_decoder", [False])
    model = _T5Reader(checkpoint.kind, facts, checkpoint.weights)
    sizes = model.sizes()
    tensors = model.all_tensors(sizes)  # first, so that the sizes are sure
    special = special_ids(facts, checkpoint.generation)
    return sizes, tensors, read_t5_words(checkpoint.folder, sizes["target_vocab_size"], special)


class _T5Reader:
    """The config and the weights of one model, and our tensors."""

    def __init__(self, kind: str, facts: Facts, weights: Weights) -> None:
        self.kind, self.facts, self.weights, self._tensors = kind, facts, weights, Tensors(weights)

    def sizes(self) -> dict[str, Any]:
        """The facts of TransformerConfig except tokens and languages."""
        facts, vocab = self.facts, self.facts.integer("vocab_size")
        activation, gated = facts.choice("feed_forward_proj", _FEED_FORWARD)
        facts.require("dense_act_fn", [name for name, meaning in _ACTIVATIONS.items() if meaning == activation])
        facts.require("is_gated_act", [gated])
        layers = {"encoder": "num_layers", "decoder": "num_layers"}
        if facts.get("num_decoder_layers") is not None:
            layers["decoder"] = "num_decoder_layers"
        sizes: dict[str, Any] = {
            "source_vocab_size": vocab,
            "target_vocab_size": vocab,
            "hidden_dim": facts.integer("d_model"),
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
            "shared_embedding": True,
            "tied_output": not self._own_output(),
        }
        for side in _SIDES:
            sizes[f"{side}_layers"] = facts.integer(layers[side])
            sizes[f"{side}_heads"], sizes[f"{side}_ffn_dim"] = facts.integer("num_heads"), facts.integer("d_ff")
        return sizes

    def all_tensors(self, sizes: dict[str, Any]) -> dict[str, Tensor]:
        """All tensors in our names; raises ModelError if one is missing, of another shape, or left over."""
        w, t, dim, vocab = self.weights, self._tensors, sizes["hidden_dim"], sizes["target_vocab_size"]
        t["target_embedding"] = w.take(self._embedding, vocab, dim)
        for name in _EMBEDDINGS:
            if name in w and not np.array_equal(w.whole(name), values(t["target_embedding"])):
                raise ModelError(f"{w.path}: {name} is not {self._embedding}; T5 has one embedding for both sides.")
        if not sizes["tied_output"]:
            t["output_weight"] = w.take(_HEAD, vocab, dim)
        w.ignore(_HEAD)
        t["output_bias"] = np.zeros(vocab, np.float32)
        for side in _SIDES:
            for layer in range(sizes[f"{side}_layers"]):
                self._layer(side, layer, sizes)
            if sizes["positions"] == "relative-shared":
                name = f"{side}.block.0.layer.0.SelfAttention.{_RELATIVE}"
                t[f"{side}_position_bias"] = w.take(name, sizes["relative_buckets"], sizes[f"{side}_heads"])
            t.add_vector(f"{side}_norm.weight", f"{side}.final_layer_norm.weight", dim)
        w.ignore(f"decoder.block.0.layer.1.EncDecAttention.{_RELATIVE}")  # of old files; no version reads it
        w.check_all_taken()
        if self._scaled_output():
            t["decoder_norm.weight"] = values(t["decoder_norm.weight"]) * np.float32(dim**-0.5)
        return t

    def _layer(self, side: Literal["encoder", "decoder"], layer: int, sizes: dict[str, Any]) -> None:
        w, t, dim, ffn = self.weights, self._tensors, sizes["hidden_dim"], sizes[f"{side}_ffn_dim"]
        theirs, ours = f"{side}.block.{layer}.layer", f"{side}.{layer}"
        inner = sizes[f"{side}_heads"] * sizes["head_dim"]
        attentions = {"attention": ("SelfAttention", {"qkv": "qkv"})}
        if side == "decoder":
            attentions["cross"] = ("EncDecAttention", {"query": "q", "key_value": "kv"})
        for place, (name, (kind, products)) in enumerate(attentions.items()):
            attention = f"{theirs}.{place}.{kind}"
            t.add_vector(f"{ours}.{name}.norm.weight", f"{theirs}.{place}.layer_norm.weight", dim)
            for product, letters in products.items():
                parts = [f"{attention}.{letter}.weight" for letter in letters]
                t.add_matrix(f"{ours}.{name}.{product}.weight", parts, inner, dim)
            t.add_matrix(f"{ours}.{name}.out.weight", f"{attention}.o.weight", dim, inner)
        if sizes["positions"] == "relative":
            bias = f"{theirs}.0.SelfAttention.{_RELATIVE}"
            t[f"{ours}.attention.position_bias"] = w.take(bias, sizes["relative_buckets"], sizes[f"{side}_heads"])
        last = f"{theirs}.{len(attentions)}"
        up = ("wi_0", "wi_1") if sizes["gated_ffn"] else ("wi",)
        t.add_vector(f"{ours}.ffn.norm.weight", f"{last}.layer_norm.weight", dim)
        t.add_matrix(f"{ours}.ffn.up.weight", [f"{last}.DenseReluDense.{name}.weight" for name in up], ffn, dim)
        t.add_matrix(f"{ours}.ffn.down.weight", f"{last}.DenseReluDense.wo.weight", dim, ffn)

    @property
    def _embedding(self) -> str:
        """The name of the embedding: MADLAD-400's files have the decoder's only, others `shared`."""
        return next((name for name in (*_EMBEDDINGS, _HEAD) if name in self.weights), _EMBEDDINGS[0])

    def _own_output(self) -> bool:
        """Whether the output matrix is another one than the embedding."""
        w = self.weights
        return _HEAD in w and not np.array_equal(w.whole(_HEAD), w.whole(self._embedding))

    def _scaled_output(self) -> bool:
        """Whether hidden vectors are divided by sqrt(d_model) before the output matrix; we scale the last norm.

        T5 v1.0 is and v1.1 is not, which config.json tells by tie_word_embeddings; mT5 never is.
        """
        facts = self.facts
        if facts.get("scale_decoder_outputs") is not None:
            return facts.flag("scale_decoder_outputs")
        return self.kind != "mt5" and (facts.get("tie_word_embeddings") is None or facts.flag("tie_word_embeddings"))
