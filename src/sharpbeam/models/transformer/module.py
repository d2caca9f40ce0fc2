"""The transformer in PyTorch: training, GPU, and the slow truth that the native twin must equal.

Shapes: B requests, R rows, S source length, T target length, D hidden, H heads, A all heads' queries (often D), L
decoder layers, F feed-forward width. A step of one token is in `sharpbeam.gpu.transformer`, from the same sublayers.
Softmax and norms are in float32, also where `forward` runs under bfloat16 autocast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sharpbeam.models.module import LockedDropout, TranslationModule
from sharpbeam.models.transformer.attention import PositionBias, attend, bias_at, position_bias
from sharpbeam.models.transformer.config import Side, TransformerConfig
from sharpbeam.models.transformer.positions import sinusoid

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "gelu_sigmoid": lambda x: x * torch.sigmoid(1.702 * x),
    "swish": F.silu,
}


def linear(inputs: int, outputs: int, bias: bool, parts: int = 1) -> nn.Linear:
    """A matmul of `parts` matrices, one below the other, each initialized as if it stood alone."""
    layer = nn.Linear(inputs, outputs, bias)
    for part in layer.weight.data.chunk(parts):
        nn.init.xavier_uniform_(part)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def norm_layer(config: TransformerConfig) -> nn.Module:
    """A norm of vectors [..., D]."""
    kind = nn.RMSNorm if config.norm_kind == "rms" else nn.LayerNorm
    return kind(config.hidden_dim, config.norm_epsilon)


class Sublayer(nn.Module):
    """A norm, dropout, and the sum with what came in: f becomes x + f(norm(x)), or norm(x + f(x))."""

    def __init__(self, config: TransformerConfig, dropout: LockedDropout) -> None:
        super().__init__()
        self.norm = norm_layer(config)
        self.before, self.dropout = config.norm == "pre", dropout

    def enter(self, x: Tensor) -> Tensor:
        """The input of f for `x`."""
        result: Tensor = self.norm(x) if self.before else x
        return result

    def leave(self, x: Tensor, change: Tensor) -> Tensor:
        """The sublayer's answer, given `x` and f's."""
        total = x + self.dropout(change)
        result: Tensor = total if self.before else self.norm(total)
        return result


class SelfAttention(Sublayer):
    """Attention of a sequence to itself."""

    def __init__(self, config: TransformerConfig, side: Side, dropout: LockedDropout) -> None:
        super().__init__(config, dropout)
        dim, inner, bias = config.hidden_dim, config.attention_dim(side), config.attention_bias
        self.heads, self.scaled = config.heads(side), config.scaled_attention
        self.qkv = linear(dim, 3 * inner, bias, parts=3)
        self.out = linear(inner, dim, bias)
        self.position_bias = position_bias(config, side) if config.positions == "relative" else None

    def forward(self, x: Tensor, visible: Tensor | None, bias: PositionBias) -> Tensor:
        """[B, T, D], and which positions each one may look at, as in `attend` -> [B, T, D]."""
        query, keys, values = self.qkv(self.enter(x)).chunk(3, dim=-1)
        added = bias(self.position_bias)
        return self.leave(x, self.out(attend(query, keys, values, visible, self.heads, self.scaled, added)))


class RecurrentUnit(Sublayer):
    """Marian's simpler simple recurrent unit (Kim et al. 2019): c' = s(f) c + (1 - s(f)) x, answer relu(c')."""

    def __init__(self, config: TransformerConfig, dropout: LockedDropout) -> None:
        super().__init__(config, dropout)
        dim = config.hidden_dim
        self.cell = linear(dim, 2 * dim, True, parts=2)
        self.out = linear(dim, dim, config.attention_bias) if config.ssru_projection else nn.Identity()

    def forward(self, x: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """[B, T, D] after cells [B, D] float32 -> [B, T, D] and the last cells."""
        candidate, forget = self.cell(self.enter(x)).float().chunk(2, dim=-1)
        cells = []
        for new, keep in zip(candidate.unbind(1), torch.sigmoid(forget).unbind(1), strict=True):
            cell = new + keep * (cell - new)
            cells.append(cell)
        return self.leave(x, self.out(torch.relu(torch.stack(cells, dim=1)).to(x.dtype))), cell


class CrossAttention(Sublayer):
    """Attention to the source, whose keys and values are computed once for a request."""

    def __init__(self, config: TransformerConfig, dropout: LockedDropout) -> None:
        super().__init__(config, dropout)
        dim, inner, bias = config.hidden_dim, config.attention_dim("decoder"), config.attention_bias
        self.heads, self.scaled = config.decoder_heads, config.scaled_attention
        self.query = linear(dim, inner, bias)
        self.key_value = linear(dim, 2 * inner, bias, parts=2)
        self.out = linear(inner, dim, bias)

    def forward(self, x: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        """[B, T, D], keys and values of the source [B, S, 2 A], mask [B, 1, 1, S] -> [B, T, D]."""
        keys, values = memory.chunk(2, dim=-1)
        context = attend(self.query(self.enter(x)), keys, values, mask, self.heads, self.scaled)
        return self.leave(x, self.out(context))


@dataclass(frozen=True)
class Routing:
    """The two experts of each position (GShard: Lepikhin et al. 2021); N positions, E experts, none with a limit."""

    expert: Tensor  # [N, 2] int64, the better one first; ties by lower number
    gate: Tensor  # [N, 2] float32
    balance: Tensor  # load-balancing loss: 1 if all experts are chosen equally often, up to E


def route(logits: Tensor, normalized: bool) -> Routing:
    """The routing by router logits [N, E] in float32; `normalized` gates sum to 1."""
    experts = logits.shape[-1]
    share = torch.softmax(logits, dim=-1)
    best = logits.argmax(dim=-1, keepdim=True)
    second = logits.scatter(-1, best, float("-inf")).argmax(dim=-1, keepdim=True)
    expert = torch.cat([best, second], dim=-1)
    gate = share.gather(-1, expert)
    if normalized:
        gate = gate / gate.sum(dim=-1, keepdim=True).clamp(min=torch.finfo(torch.float32).eps)
    often = F.one_hot(best[:, 0], experts).float().mean(dim=0)
    return Routing(expert, gate, experts * (often * share.mean(dim=0)).sum())


def mixture(x: Tensor, routing: Routing, apply: Callable[[int, Tensor], Tensor]) -> Tensor:
    """Each position's two answers times their gates: [N, D] -> [N, D]; `apply` gets an expert and its positions."""
    order = routing.expert.flatten().argsort(stable=True)
    counts = torch.bincount(routing.expert.flatten(), minlength=1).tolist()
    place = torch.div(order, 2, rounding_mode="floor")
    answers, begin = [], 0
    for expert, count in enumerate(counts):
        if count:
            answers.append(apply(expert, x[place[begin : begin + count]]))
        begin += count
    mixed = torch.cat(answers) * routing.gate.flatten()[order, None].to(answers[0].dtype) if answers else x
    result: Tensor = torch.zeros_like(x).to(mixed.dtype).index_add(0, place, mixed)
    return result


class FeedForward(Sublayer):
    """Two matmuls with an activation between them; or a mixture of `experts` such pairs, one below the other."""

    def __init__(self, config: TransformerConfig, side: Side, dropout: LockedDropout, experts: int) -> None:
        super().__init__(config, dropout)
        width = config.encoder_ffn_dim if side == "encoder" else config.decoder_ffn_dim
        gates = 2 if config.gated_ffn else 1
        self.up = linear(config.hidden_dim, experts * gates * width, config.ffn_bias, parts=experts * gates)
        self.down = linear(width, experts * config.hidden_dim, config.ffn_bias, parts=experts)
        self.activation, self.gated, self.experts = ACTIVATIONS[config.activation], config.gated_ffn, experts
        self.normalized = config.normalized_gates
        if experts > 1:
            self.router = linear(config.hidden_dim, experts, config.router_bias)
        self.balance: Tensor | None = None  # the load-balancing loss of the last call in training

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] -> [..., D]."""
        inner = self.enter(x)
        if self.experts == 1:
            return self.leave(x, self.down(self.dropout(self._activated(self.up(inner)))))
        flat = inner.flatten(0, -2)
        with torch.autocast(x.device.type, enabled=False):
            routing = route(self.router(flat.float()), self.normalized)
        self.balance = routing.balance if self.training else None
        return self.leave(x, mixture(flat, routing, self._expert).view_as(inner))

    def _expert(self, number: int, x: Tensor) -> Tensor:
        """One expert's answer [n, D] for the positions x [n, D] that chose it; without dropout inside."""
        (up, up_bias), (down, down_bias) = (self._part(layer, number) for layer in (self.up, self.down))
        return F.linear(self._activated(F.linear(x, up, up_bias)), down, down_bias)

    def _part(self, layer: nn.Linear, number: int) -> tuple[Tensor, Tensor | None]:
        bias: Tensor | None = layer.bias
        return layer.weight.chunk(self.experts)[number], None if bias is None else bias.chunk(self.experts)[number]

    def _activated(self, inner: Tensor) -> Tensor:
        if self.gated:
            inner, gate = inner.chunk(2, dim=-1)
            return self.activation(inner) * gate
        return self.activation(inner)


class Layer(nn.Module):
    """Self-attention or the recurrent unit, in the decoder attention to the source, then the feed-forward part."""

    def __init__(self, config: TransformerConfig, side: Side, number: int, dropout: LockedDropout) -> None:
        super().__init__()
        self.side, self.attends = side, side == "encoder" or config.decoder_kind == "attention"
        if self.attends:
            self.attention = SelfAttention(config, side, dropout)
        else:
            self.ssru = RecurrentUnit(config, dropout)
        if side == "decoder":
            self.cross = CrossAttention(config, dropout)
        self.ffn = FeedForward(config, side, dropout, config.experts_of(side, number))

    def forward(self, x: Tensor, mask: Tensor | None, bias: PositionBias, memory: Tensor | None = None) -> Tensor:
        """[B, T, D], mask of the source [B, 1, 1, S], for the decoder its keys and values [B, S, 2 A] -> [B, T, D]."""
        if not self.attends:
            x, _ = self.ssru(x, x.new_zeros(len(x), x.shape[-1], dtype=torch.float32))
        elif self.side == "encoder":
            x = self.attention(x, mask, bias)
        else:
            x = self.attention(x, torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).tril(), bias)
        result: Tensor = self.ffn(x if memory is None else self.cross(x, memory, mask))
        return result


class TransformerModule(TranslationModule):
    """Source and target ids -> hidden vectors. Dropout is on the embeddings, in and after each sublayer."""

    config: TransformerConfig

    def __init__(self, config: TransformerConfig, dropout: float = 0.0) -> None:
        super().__init__(config, dropout)
        dim = config.hidden_dim
        if config.positions == "learned":
            self.source_positions = nn.Parameter(torch.randn(config.max_positions, dim) * dim**-0.5)
            self.target_positions = nn.Parameter(torch.randn(config.max_positions, dim) * dim**-0.5)
        if config.embedding_norm:
            self.source_embedding_norm, self.target_embedding_norm = norm_layer(config), norm_layer(config)
        if config.positions == "relative-shared":
            self.encoder_position_bias = position_bias(config, "encoder")
            if config.decoder_kind == "attention":
                self.decoder_position_bias = position_bias(config, "decoder")
        self.encoder = nn.ModuleList(Layer(config, "encoder", i, self.dropout) for i in range(config.encoder_layers))
        self.decoder = nn.ModuleList(Layer(config, "decoder", i, self.dropout) for i in range(config.decoder_layers))
        self.encoder_norm = norm_layer(config) if config.encoder_final_norm else nn.Identity()
        self.decoder_norm = norm_layer(config) if config.decoder_final_norm else nn.Identity()
        self.sinusoids, self.reaching = torch.empty(0, dim), Lock()  # another when a longer text comes

    def encode(self, source: Tensor, mask: Tensor | None) -> Tensor:
        """Source ids [B, S], mask [B, S] bool (None = no padding) -> each layer's keys and values [L, B, S, 2 A]."""
        self.reach(source.shape[1])
        position = torch.arange(source.shape[1], device=source.device)
        x, bias = self.embed_at("source", source, position), self._bias("encoder", position)
        for layer in self.encoder:
            x = layer(x, None if mask is None else mask[:, None, None], bias)
        x = self.encoder_norm(x)
        return torch.stack([layer.cross.key_value(x) for layer in cast("list[Layer]", list(self.decoder))])

    def forward(self, source: Tensor, mask: Tensor | None, target: Tensor) -> Tensor:
        """Source [B, S] and the target shifted right [B, T] -> hidden [B, T, D]."""
        memory = self.encode(source, mask)
        self.reach(target.shape[1])
        position = torch.arange(target.shape[1], device=target.device)
        x, bias = self.embed_at("target", target, position), self._bias("decoder", position)
        for layer, own in zip(self.decoder, memory, strict=True):
            x = layer(x, None if mask is None else mask[:, None, None], bias, own)
        hidden: Tensor = self.decoder_norm(x)
        return hidden

    def balance_loss(self) -> Tensor | None:
        """The mean load-balancing loss of the mixtures in the last forward pass; it counts padding too."""
        parts = [part.balance for part in self.modules() if isinstance(part, FeedForward) and part.balance is not None]
        return torch.stack(parts).mean() if parts else None

    def reach(self, positions: int) -> None:
        """Have encodings of this many positions: a new table where they are more. ValueError beyond a learned one."""
        c = self.config
        if c.positions == "learned" and positions > c.max_positions:
            raise ValueError(f"{positions} positions are more than the model's {c.max_positions}; give shorter texts.")
        with self.reaching:  # or one of two runs would put a shorter table in the place of a longer one
            if c.positions.startswith("sinusoidal") and positions > len(self.sinusoids):
                table = sinusoid(c.positions, c.position_offset, max(64, 2 * positions), c.hidden_dim)
                self.sinusoids = torch.from_numpy(table).to(self.target_embedding)

    def embed_at(self, side: str, token: Tensor, position: Tensor) -> Tensor:
        """Ids [B, S] at positions [S], or [R] at [R], which are in `reach` -> [..., D]."""
        c, is_target = self.config, side == "target"
        x = self.embed(side, token)
        if c.scaled_embedding:
            x = x * c.hidden_dim**0.5
        if c.positions == "learned":
            x = x + F.embedding(position, self.target_positions if is_target else self.source_positions)
        elif c.positions.startswith("sinusoidal"):
            x = x + F.embedding(position, self.sinusoids)
        if c.embedding_norm:
            x = (self.target_embedding_norm if is_target else self.source_embedding_norm)(x)
        result: Tensor = self.dropout(x)
        return result

    def _bias(self, side: Side, position: Tensor) -> PositionBias:
        shared = getattr(self, f"{side}_position_bias", None)
        return bias_at(self.config, side, position - position[:, None], shared)
