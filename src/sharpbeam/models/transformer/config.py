"""The facts of a transformer encoder-decoder (Vaswani et al. 2017), as Marian, M2M100, NLLB, T5 and others have it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from sharpbeam.errors import ModelError
from sharpbeam.models.config import ModelConfig, Shapes, embeddings, linear, output
from sharpbeam.types import Footprint

MOST_HEAD_DIM, MOST_DISTANCES, MOST_OFFSET = 2**16, 2**24, 2**28
MOST_EXPERTS = 1024
Side = Literal["encoder", "decoder"]


@dataclass(frozen=True)
class TransformerConfig(ModelConfig):
    """Sizes and shape of a transformer; saved in ``config.json`` next to the weights."""

    source_vocab_size: int
    target_vocab_size: int
    hidden_dim: int = 512  # D, of embeddings, all layers, and the output layer
    encoder_layers: int = 6
    decoder_layers: int = 6
    encoder_heads: int = 8
    decoder_heads: int = 8  # of the attention to itself and to the source
    head_dim: int = 0  # of a head's queries, keys and values; 0: hidden_dim / heads
    scaled_attention: bool = True  # attention scores are divided by sqrt(head_dim)
    encoder_ffn_dim: int = 2048  # F
    decoder_ffn_dim: int = 2048
    norm: Literal["pre", "post"] = "pre"  # x + f(norm(x)), or norm(x + f(x))
    encoder_final_norm: bool = True  # a norm above the uppermost layer
    decoder_final_norm: bool = True
    embedding_norm: bool = False  # a norm of word and position together, each side its own
    norm_kind: Literal["layer", "rms"] = "layer"  # rms: without mean and bias
    norm_epsilon: float = 1e-5
    # gelu_sigmoid: x sigmoid(1.702 x), Marian's; gelu_tanh: the approximation of gelu by tanh, Hugging Face's gelu_new
    activation: Literal["relu", "gelu", "gelu_sigmoid", "gelu_tanh", "swish"] = "relu"
    gated_ffn: bool = False  # down(act(up_1 x) * up_2 x) instead of down(act(up x))
    # Mixture of experts: every n-th layer of a side (0: none) has `experts` feed-forward parts. Each position takes the
    # two that a router scores best, times their gates (GShard: Lepikhin et al. 2021).
    experts: int = 0
    encoder_expert_step: int = 0
    decoder_expert_step: int = 0
    normalized_gates: bool = True  # the two gates sum to 1, or are those of the softmax over all experts
    router_bias: bool = False
    # D/2 sines, then D/2 cosines, of position times 10000^(-2i/D) (Vaswani; Hugging Face's MarianMT), or times
    # 10000^(-i/(D/2 - 1)) (tensor2tensor, fairseq, M2M100, NLLB, Marian).  relative: a bias for each score of
    # self-attention, by head and bucket of distances (T5); relative-shared: the same in all layers.
    positions: Literal["sinusoidal", "sinusoidal-t2t", "learned", "relative", "relative-shared", "none"] = "sinusoidal"
    position_offset: int = 0  # number of the first position; 2 in fairseq's models
    max_positions: int = 0  # rows of the tables of learned positions
    relative_buckets: int = 0  # of distances
    relative_distance: int = 0  # from which on all distances share the last bucket
    scaled_embedding: bool = True  # embeddings, not the output matrix, times sqrt(D)
    shared_embedding: bool = False  # source and target embeddings are one tensor
    tied_output: bool = False  # the output matrix is the target embedding
    attention_bias: bool = True
    ffn_bias: bool = True
    decoder_kind: Literal["attention", "ssru"] = "attention"  # what looks back: attention, or a recurrent unit
    ssru_projection: bool = False  # a matmul after the recurrent unit
    unk_id: int = 0
    bos_id: int = 1  # first input of the decoder; may be eos_id or pad_id
    eos_id: int = 2
    pad_id: int = 3
    languages: dict[str, int] = field(default_factory=dict)  # token of each language, the same on both sides
    source_language: str = ""  # where none is named
    target_language: str = ""
    # Whose language's token is put before the source; "source-behind": the source's, after eos.  vocabulary: stored
    source_tag: Literal["none", "source", "target", "source-behind"] = "none"  # vocabulary: stored
    source_begin: tuple[int, ...] = ()  # tokens before every source, before its tag
    source_eos: bool = True  # whether sources end in eos; those of OpenNMT-py do not
    target_tag: bool = False  # every translation begins with the token of its language, which adds nothing to its score
    target_begin: tuple[int, ...] = ()  # tokens that every translation begins with too, before the tag
    suppressed_ids: tuple[int, ...] = ()  # words that are never produced, though the normalizer counts them

    def check(self) -> None:
        """Raise ModelError if the facts do not fit together."""
        for side in ("encoder", "decoder"):
            divides = self.head_dim or self.hidden_dim % getattr(self, f"{side}_heads") == 0
            self.need(f"{side}_heads", bool(divides), f"a divisor of hidden_dim, {self.hidden_dim}")
            step, layers = f"{side}_expert_step", getattr(self, f"{side}_layers")
            self.need(step, 0 <= getattr(self, step) <= layers, f"between 0 and the {layers} layers")
        self.need("head_dim", 0 <= self.head_dim <= MOST_HEAD_DIM, f"between 0 and {MOST_HEAD_DIM}")
        self.need("norm_epsilon", 0.0 < self.norm_epsilon < 1.0, "between 0 and 1")
        if self.encoder_expert_step or self.decoder_expert_step:
            self.need("experts", 2 <= self.experts <= MOST_EXPERTS, f"between 2 and {MOST_EXPERTS} with an expert_step")
        else:
            self.need("experts", self.experts == 0, "0 without an expert_step")
            self.need("router_bias", not self.router_bias, "false without experts")
        self._check_positions()
        self._check_languages()

    def _check_positions(self) -> None:
        sinusoidal, kind = self.positions.startswith("sinusoidal"), f"with positions {self.positions!r}"
        even = not sinusoidal or (self.hidden_dim % 2 == 0 and self.hidden_dim >= 4)
        self.need("hidden_dim", even, f"even, and 4 or more, {kind}")
        learned = self.positions == "learned"
        self.need("max_positions", learned == (self.max_positions > 0), f"{'1 or more' if learned else 0} {kind}")
        most = MOST_OFFSET if sinusoidal else 0
        self.need("position_offset", 0 <= self.position_offset <= most, f"between 0 and {most} {kind}")
        buckets, distance = self.relative_buckets, self.relative_distance
        if not self.positions.startswith("relative"):
            self.need("relative_buckets", not buckets, f"0 {kind}")
            self.need("relative_distance", not distance, f"0 {kind}")
            return
        most = MOST_DISTANCES // max(self.encoder_heads, self.decoder_heads)
        self.need("relative_buckets", buckets >= 4, f"4 or more {kind}")
        allowed = f"more than half of the {buckets} buckets and at most {most} {kind} and these heads"
        self.need("relative_distance", buckets < 2 * distance <= 2 * most, allowed)

    def _check_languages(self) -> None:
        size = min(self.source_vocab_size, self.target_vocab_size)
        for code, token in self.languages.items():
            if not 0 <= token < size:
                raise ModelError(f"languages gives {code!r} the token {token}; it must lie inside both vocabularies.")
        for name in ("source_language", "target_language"):
            code, allowed = getattr(self, name), ", ".join(self.languages)
            self.need(name, not code or code in self.languages, f"one of languages: {allowed}")
        self.need("source_tag", bool(self.languages) or self.source_tag == "none", "'none' without languages")
        self.need("target_tag", bool(self.languages) or not self.target_tag, "false without languages")
        for name in ("source_begin", "target_begin", "suppressed_ids"):
            side = self.source_vocab_size if name == "source_begin" else self.target_vocab_size
            for token in getattr(self, name):
                if not 0 <= token < side:
                    raise ModelError(f"{name} has {token}; it must be from 0 to below {side}.")

    def tensor_shapes(self) -> Shapes:
        """Every tensor by name.

        The rows of `qkv` are queries, head by head, keys and values; those of `key_value` keys and values, those of
        `ssru.cell` candidates and forget gates, those of a gated `up` the activated part, then the other. The matrices
        and biases of a mixture's experts stand one below the other. A `position_bias` has a row for each bucket, a
        column for each head.
        """
        dim, shapes = self.hidden_dim, embeddings(self)
        for name in ("source", "target"):
            if self.positions == "learned":
                shapes[f"{name}_positions"] = (self.max_positions, dim)
            if self.embedding_norm:
                shapes |= self._norm(f"{name}_embedding_norm")
        if self.positions == "relative-shared":
            shapes["encoder_position_bias"] = (self.relative_buckets, self.encoder_heads)
            if self.decoder_kind == "attention":
                shapes["decoder_position_bias"] = (self.relative_buckets, self.decoder_heads)
        for i in range(self.encoder_layers):
            shapes |= self._attention("encoder", i) | self._ffn("encoder", i, self.encoder_ffn_dim)
        for i in range(self.decoder_layers):
            shapes |= self._attention("decoder", i) if self.decoder_kind == "attention" else self._ssru(i)
            cross, keys = f"decoder.{i}.cross", self.attention_dim("decoder")
            shapes |= self._norm(f"{cross}.norm")
            for name, inputs, outputs in (("query", dim, keys), ("key_value", dim, 2 * keys), ("out", keys, dim)):
                shapes |= linear(f"{cross}.{name}", inputs, outputs, self.attention_bias)
            shapes |= self._ffn("decoder", i, self.decoder_ffn_dim)
        shapes |= self._norm("encoder_norm") if self.encoder_final_norm else {}
        shapes |= self._norm("decoder_norm") if self.decoder_final_norm else {}
        return shapes | output(self)

    def _attention(self, side: Side, layer: int) -> Shapes:
        name, dim, keys = f"{side}.{layer}.attention", self.hidden_dim, self.attention_dim(side)
        shapes = self._norm(f"{name}.norm") | linear(f"{name}.qkv", dim, 3 * keys, self.attention_bias)
        if self.positions == "relative":
            shapes[f"{name}.position_bias"] = (self.relative_buckets, self.heads(side))
        return shapes | linear(f"{name}.out", keys, dim, self.attention_bias)

    def _ssru(self, layer: int) -> Shapes:
        name, dim = f"decoder.{layer}.ssru", self.hidden_dim
        shapes = self._norm(f"{name}.norm") | linear(f"{name}.cell", dim, 2 * dim)
        return shapes | linear(f"{name}.out", dim, dim, self.attention_bias) if self.ssru_projection else shapes

    def _ffn(self, side: Side, layer: int, width: int) -> Shapes:
        name, dim, experts = f"{side}.{layer}.ffn", self.hidden_dim, self.experts_of(side, layer)
        up = 2 * width if self.gated_ffn else width
        shapes = self._norm(f"{name}.norm")
        shapes |= linear(f"{name}.router", dim, experts, self.router_bias) if experts > 1 else {}
        shapes |= linear(f"{name}.up", dim, experts * up, self.ffn_bias)
        return shapes | linear(f"{name}.down", width, experts * dim, self.ffn_bias)

    def _norm(self, name: str) -> Shapes:
        shapes: Shapes = {f"{name}.weight": (self.hidden_dim,)}
        return shapes if self.norm_kind == "rms" else shapes | {f"{name}.bias": (self.hidden_dim,)}

    def experts_of(self, side: Side, layer: int) -> int:
        """Experts in the feed-forward part of a layer, counted from 0; 1 if it is no mixture."""
        step = self.encoder_expert_step if side == "encoder" else self.decoder_expert_step
        return self.experts if step and (layer + 1) % step == 0 else 1

    def heads(self, side: Side) -> int:
        """Heads of the attention on one side."""
        return self.encoder_heads if side == "encoder" else self.decoder_heads

    def attention_dim(self, side: Side) -> int:
        """Width of the queries, keys and values of all heads together."""
        return self.heads(side) * (self.head_dim or self.hidden_dim // self.heads(side))

    @property
    def embedding_dim(self) -> int:
        """Width of the embeddings."""
        return self.hidden_dim

    @property
    def footprint(self) -> Footprint:
        """Memory of rows and source positions, at most: in float32.

        A row's own keys and values grow with its length, and siblings share them; so much is counted as 64 words take.
        Keys of the source are packed with 64 positions side by side, so those of a request's last positions may take 64
        of them, which are counted with its row; its values are packed with 64 numbers of a head side by side.
        """
        dim, layers, keys = self.hidden_dim, self.decoder_layers, self.attention_dim("decoder")
        own = 2 * layers * dim if self.decoder_kind == "ssru" else 64 * 2 * layers * keys
        own += 64 * layers * keys
        value = self.decoder_heads * 64 * math.ceil(keys / self.decoder_heads / 64)
        gates = 2 if self.gated_ffn else 1
        routed = self.experts + 4 * dim if self.experts else 0
        step = 2 * dim + 4 * keys + (1 + gates) * self.decoder_ffn_dim + routed
        encoding = 2 * dim + 4 * self.attention_dim("encoder") + (1 + gates) * self.encoder_ffn_dim + routed
        return Footprint(row=4 * (own + step), position=4 * (layers * (keys + value) + encoding))
