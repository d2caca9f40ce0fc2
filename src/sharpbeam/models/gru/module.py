"""The recurrent encoder-decoder in PyTorch: training, and the slow truth that the native twin must equal.

Shapes as in models/module.py; H is the bottom state.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.module import Bidirectional, Cell, EncodedSources, RecurrentModule


class GRU(Cell):
    """A gated recurrent unit in the form of SHARP section 4 (= PyTorch's and cuDNN's), gates in the order r, z, n.

    r, z = sigmoid(W_i x + b_i + W_h h + b_h);  n = tanh(W_i x + b_i + r * (W_h h + b_h));  h' = z h + (1 - z) n
    """

    gates = 3

    def forward(self, projected: Tensor, state: Tensor) -> Tensor:
        """One step: projected input [B, 3H] and state [B, H] -> next state [B, H]."""
        reset_x, update_x, new_x = projected.float().chunk(3, dim=-1)
        reset_h, update_h, new_h = F.linear(state, self.hidden_weight, self.hidden_bias).float().chunk(3, dim=-1)
        reset = torch.sigmoid(reset_x + reset_h)
        update = torch.sigmoid(update_x + update_h)
        new = torch.tanh(new_x + reset * new_h)
        return new + update * (state - new)


class Attention(nn.Module):
    """Attention over the source: CUBE eq. 4-5 ("mlp") or the dot product of two tanh layers of SHARP section 4."""

    def __init__(self, kind: str, query_dim: int, memory_dim: int, attention_dim: int) -> None:
        super().__init__()
        self.kind = kind
        self.query_weight = nn.Parameter(torch.empty(attention_dim, query_dim))
        self.key_weight = nn.Parameter(torch.empty(attention_dim, memory_dim))
        self.key_bias = nn.Parameter(torch.zeros(attention_dim))
        nn.init.xavier_uniform_(self.query_weight)
        nn.init.xavier_uniform_(self.key_weight)
        if kind == "mlp":
            self.score_weight = nn.Parameter(torch.empty(attention_dim))
            nn.init.uniform_(self.score_weight, -(attention_dim**-0.5), attention_dim**-0.5)

    def keys(self, memory: Tensor) -> Tensor:
        """[..., M] -> [..., A], computed once for a request."""
        keys = F.linear(memory, self.key_weight, self.key_bias)
        return keys if self.kind == "mlp" else torch.tanh(keys)

    def forward(self, query: Tensor, memory: EncodedSources) -> tuple[Tensor, Tensor]:
        """Query [B, Q] -> context [B, M] and weights [B, S]."""
        query, keys = F.linear(query, self.query_weight), memory.keys
        if self.kind == "mlp":
            return memory.mean_by(torch.tanh(keys + query[:, None, :]) @ self.score_weight.to(keys.dtype))
        return memory.mean_by((keys @ torch.tanh(query)[:, :, None].to(keys.dtype))[:, :, 0])


class GruDecoder(nn.Module):
    """Bottom cell with attention, fully connected layers, top layer and readout, as the config says."""

    def __init__(self, config: GruConfig) -> None:
        super().__init__()
        c = config
        self.config = c
        self.bridge = nn.Linear(c.memory_dim, c.decoder_dim)
        if c.decoder_cell == "conditional":
            self.first = GRU(c.embedding_dim, c.decoder_dim)
            self.second = GRU(c.memory_dim, c.decoder_dim)
        else:
            self.first = GRU(c.embedding_dim + c.memory_dim, c.decoder_dim)
        self.attention = Attention(c.attention, c.query_dim, c.memory_dim, c.attention_dim)
        self.fc = nn.ModuleList(nn.Linear(c.decoder_dim if i == 0 else c.fc_dim, c.fc_dim) for i in range(c.fc_layers))
        if c.top == "tanh":
            self.top = nn.Linear(c.below_top, c.top_dim)
        elif c.top == "gru":
            self.top_gru = GRU(c.below_top, c.top_dim)
        if c.readout != "none":
            self.readout = nn.Linear(c.stack_dim + c.memory_dim + c.embedding_dim, c.hidden_dim)

    def begin(self, memory: EncodedSources) -> Tensor:
        """Initial state [B, state_dim]: tanh of an affine map of the mean memory; a top GRU's as top_start says."""
        if memory.mask is None:
            mean = memory.values.float().mean(1)
        else:
            weight = memory.mask[:, :, None].float()
            mean = (memory.values * weight).sum(1) / weight.sum(1)
        bottom = torch.tanh(self.bridge(mean)).float()
        if self.config.top_start == "bottom":
            return torch.cat([bottom, bottom], dim=-1)
        return F.pad(bottom, (0, self.config.state_dim - bottom.shape[1]))

    def bottom(
        self, embedded: Tensor, projected: Tensor, state: Tensor, memory: EncodedSources
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step of the bottom cell -> state [B, H], context [B, M], attention weights [B, S].

        Conditional (CUBE eq. 13-14): s~ = GRU1(e, s);  c = attend(s~);  s' = GRU2(c, s~).
        Attentional (SHARP section 4): c = attend(s, e);  s' = GRU([e; c], s).
        """
        if self.config.decoder_cell == "conditional":
            between = self.first(projected, state)
            context, weights = self.attention(between, memory)
            return self.second(self.second.project(context), between), context, weights
        context, weights = self.attention(torch.cat([state, embedded], dim=-1), memory)
        split = self.config.embedding_dim
        projected = projected + F.linear(context, self.first.input_weight[:, split:])
        return self.first(projected, state), context, weights

    def project(self, embedded: Tensor) -> Tensor:
        """The token's share of the bottom cell's gates, [..., E] -> [..., 3H]."""
        if self.config.decoder_cell == "conditional":
            return self.first.project(embedded)
        return F.linear(embedded, self.first.input_weight[:, : self.config.embedding_dim], self.first.input_bias)

    def stack(self, below: Tensor) -> Tensor:
        """The fully connected layers (SHARP section 5): h1, h2 plain, then a residual on every other layer."""
        residual = below
        for i, layer in enumerate(self.fc):
            below = layer(below)
            if i >= 2 and i % 2 == 0:
                below = below + residual
            below = torch.relu(below)
            if i % 2 == 0:
                residual = below
        return below

    def forward(self, embedded: Tensor, state: Tensor, memory: EncodedSources) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens [B, T, E] after states [B, state_dim] -> hidden [B, T, D], last states, last attention [B, S].

        All but the recurrences is done for all positions at once.
        """
        size, projected = self.config.decoder_dim, self.project(embedded)
        bottom, upper = state[:, :size], state[:, size:]
        states, contexts, weights = [], [], state
        for t in range(embedded.shape[1]):
            bottom, context, weights = self.bottom(embedded[:, t], projected[:, t], bottom, memory)
            states.append(bottom)
            contexts.append(context)
        top = self.stack(torch.stack(states, dim=1))
        if self.config.top == "tanh":
            top = torch.tanh(self.top(top))
        elif self.config.top == "gru":
            tops = []
            for gates in self.top_gru.project(top).unbind(1):
                upper = self.top_gru(gates, upper)
                tops.append(upper)
            top = torch.stack(tops, dim=1)
        if self.config.readout != "none":  # t = g(e, c, s) (CUBE eq. 7)
            top = self.readout(torch.cat([top, torch.stack(contexts, dim=1), embedded], dim=-1))
        hidden = torch.tanh(top) if self.config.readout == "tanh" else top
        return hidden, torch.cat([bottom, upper], dim=-1), weights


class GruModule(RecurrentModule):
    """Source and target ids -> hidden vectors."""

    def __init__(self, config: GruConfig, dropout: float = 0.0) -> None:
        super().__init__(config, dropout)
        self.encoder = nn.ModuleList(
            Bidirectional(GRU, config.embedding_dim if i == 0 else config.memory_dim, config.encoder_dim)
            for i in range(config.encoder_layers)
        )
        self.decoder = GruDecoder(config)

    def encode(self, source: Tensor, mask: Tensor | None) -> tuple[EncodedSources, Tensor]:
        """Source ids [B, S], mask [B, S] bool (None = no padding) -> memory, initial states [B, state_dim]."""
        x = self.dropout(self.embed("source", source))
        for layer in self.encoder:
            x = self.dropout(layer(x, mask)[0])
        memory = EncodedSources(x, self.decoder.attention.keys(x), mask)
        return memory, self.decoder.begin(memory)

    def read(self, target: Tensor, state: Tensor, memory: EncodedSources) -> tuple[Tensor, Tensor, Tensor]:
        """Target ids [B, T] after states [B, state_dim] -> hidden [B, T, D], last states, last attention [B, S]."""
        hidden, state, weights = self.decoder(self.dropout(self.embed("target", target)), state, memory)
        return self.dropout(hidden), state, weights
