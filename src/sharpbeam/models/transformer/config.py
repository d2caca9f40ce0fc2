"""The facts of a transformer encoder-decoder (Vaswani et al. 2017), as Marian, M2M100, NLLB, T5 and others have it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from sharpbeam.models.config import check_choices, check_sizes, check_translation, need
from sharpbeam.types import Footprint

MOST_HEAD_DIM, MOST_DISTANCES, MOST_OFFSET = 2**16, 2**24, 2**28
MOST_EXPERTS = 1024


@dataclass(frozen=True)
class TransformerConfig:
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

    def __post_init__(self) -> None:
        check_sizes(self)
        check_choices(self)
        for name, heads in (("encoder_heads", self.encoder_heads), ("decoder_heads", self.decoder_heads)):
            divides = self.head_dim or self.hidden_dim % heads == 0
            need(bool(divides), f"{name} is {heads}; it must divide hidden_dim, {self.hidden_dim}.")
        need(
            0 <= self.head_dim <= MOST_HEAD_DIM,
            f"head_dim is {self.head_dim}; it must be between 0 and {MOST_HEAD_DIM}.",
        )
        need(0.0 < self.norm_epsilon < 1.0, f"norm_epsilon is {self.norm_epsilon}; it must lie between 0 and 1.")
        self._check_positions()
        self._check_experts()
        check_translation(self)
        self._check_languages()

    def _check_positions(self) -> None:
        sinusoidal, setting = self.positions.startswith("sinusoidal"), f"positions {self.positions!r}"
        need(
            not sinusoidal or (self.hidden_dim % 2 == 0 and self.hidden_dim >= 4),
            f"hidden_dim is {self.hidden_dim}; with {setting} it must be even, and 4 or more.",
        )
        need(
            (self.positions == "learned") == (self.max_positions > 0),
            f"max_positions is {self.max_positions}; it must be 1 or more with positions 'learned', and 0 with "
            f"others, but positions is {self.positions!r}.",
        )
        self._check_relative(setting)
        most = MOST_OFFSET if sinusoidal else 0
        need(
            0 <= self.position_offset <= most,
            f"position_offset is {self.position_offset}; it must be between 0 and {most} with {setting}.",
        )

    def _check_relative(self, setting: str) -> None:
        buckets, distance = self.relative_buckets, self.relative_distance
        message = f"relative_buckets is {buckets} and relative_distance {distance}; with {setting} "
        if not self.positions.startswith("relative"):
            need(not buckets and not distance, message + "they must be 0.")
            return
        is_small = distance * max(self.encoder_heads, self.decoder_heads) <= MOST_DISTANCES
        need(
            4 <= buckets < 2 * distance and is_small,
            f"{message}there must be 4 buckets or more, fewer than twice the distance, and the distance times the "
            f"heads at most {MOST_DISTANCES}.",
        )

    def _check_experts(self) -> None:
        for side, layers in (("encoder", self.encoder_layers), ("decoder", self.decoder_layers)):
            step = getattr(self, f"{side}_expert_step")
            allowed = f"between 0 and the {layers} layers"
            need(0 <= step <= layers, f"{side}_expert_step is {step}; it must be {allowed}.")
        mixture = self.encoder_expert_step or self.decoder_expert_step
        need(
            2 <= self.experts <= MOST_EXPERTS if mixture else self.experts == 0,
            f"experts is {self.experts}; it must be between 2 and {MOST_EXPERTS} where encoder_expert_step or "
            "decoder_expert_step is above 0, and 0 elsewhere.",
        )
        need(bool(mixture) or not self.router_bias, "router_bias is true; without experts there is no router.")

    def experts_of(self, side: Literal["encoder", "decoder"], layer: int) -> int:
        """Experts in the feed-forward part of a layer, counted from 0; 1 if it is no mixture."""
        step = self.encoder_expert_step if side == "encoder" else self.decoder_expert_step
        return self.experts if step and (layer + 1) % step == 0 else 1

    def _check_languages(self) -> None:
        size = min(self.source_vocab_size, self.target_vocab_size)
        for code, token in self.languages.items():
            inside = 0 <= token < size
            need(inside, f"languages gives {code!r} the token {token}; it must lie inside both vocabularies.")
        for name in ("source_language", "target_language"):
            code, allowed = getattr(self, name), ", ".join(self.languages)
            need(not code or code in self.languages, f"{name} is {code!r}; it must be one of languages: {allowed}.")
        need(
            bool(self.languages) or (self.source_tag == "none" and not self.target_tag),
            f"source_tag is {self.source_tag!r} and target_tag {self.target_tag}; with no languages there are "
            "no tokens to put there.",
        )
        for name in ("source_begin", "target_begin", "suppressed_ids"):
            side = self.source_vocab_size if name == "source_begin" else self.target_vocab_size
            for token in getattr(self, name):
                need(0 <= token < side, f"{name} has {token}; it must be from 0 to below {side}.")

    def heads(self, side: Literal["encoder", "decoder"]) -> int:
        """Heads of the attention on one side."""
        return self.encoder_heads if side == "encoder" else self.decoder_heads

    def attention_dim(self, side: Literal["encoder", "decoder"]) -> int:
        """Width of the queries, keys and values of all heads together."""
        return self.heads(side) * (self.head_dim or self.hidden_dim // self.heads(side))

    @property
    def embedding_dim(self) -> int:
        """Width of the embeddings."""
        return self.hidden_dim

    @property
    def footprint(self) -> Footprint:
        """Memory of rows and source positions in float32.

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
