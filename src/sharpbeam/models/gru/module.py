"""The recurrent encoder-decoder in PyTorch: training, GPU, and the slow truth that the native twin must equal.

Shapes: B requests, R rows, S source length, T target length, E embedding, M memory width, A attention width, H bottom
state, D hidden. All tensors are float32; `forward` may run under bfloat16 autocast, the states stay float32.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.torch.module import EncodedSources, TranslationModule


class GRU(nn.Module):
    """A gated recurrent unit in the form of SHARP section 4 (= PyTorch's and cuDNN's), gates in the order r, z, n.

    r, z = sigmoid(W_i x + b_i + W_h h + b_h);  n = tanh(W_i x + b_i + r * (W_h h + b_h));  h' = z h + (1 - z) n
    """

    def __init__(self, input_dim: int, state_dim: int) -> None:
        super().__init__()
        self.input_weight = nn.Parameter(torch.empty(3 * state_dim, input_dim))
        self.input_bias = nn.Parameter(torch.zeros(3 * state_dim))
        self.hidden_weight = nn.Parameter(torch.empty(3 * state_dim, state_dim))
        self.hidden_bias = nn.Parameter(torch.zeros(3 * state_dim))
        for gate in range(3):
            rows = slice(gate * state_dim, (gate + 1) * state_dim)
            nn.init.xavier_uniform_(self.input_weight.data[rows])
            nn.init.orthogonal_(self.hidden_weight.data[rows])

    def project(self, x: Tensor) -> Tensor:
        """Input side of the gates, [..., input_dim] -> [..., 3H]; may be taken for all positions at once."""
        return F.linear(x, self.input_weight, self.input_bias)

    def forward(self, projected: Tensor, state: Tensor) -> Tensor:
        """One step: projected input [R, 3H] and state [R, H] -> next state [R, H]."""
        reset_x, update_x, new_x = projected.float().chunk(3, dim=-1)
        reset_h, update_h, new_h = F.linear(state, self.hidden_weight, self.hidden_bias).float().chunk(3, dim=-1)
        reset = torch.sigmoid(reset_x + reset_h)
        update = torch.sigmoid(update_x + update_h)
        new = torch.tanh(new_x + reset * new_h)
        return new + update * (state - new)


class BidirectionalGRU(nn.Module):
    """One encoder layer (CUBE eq. 1-3): a GRU in each direction, the states of both side by side."""

    def __init__(self, input_dim: int, state_dim: int) -> None:
        super().__init__()
        self.forwards = GRU(input_dim, state_dim)
        self.backwards = GRU(input_dim, state_dim)
        self.state_dim = state_dim

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """[B, S, input_dim] and mask [B, S] (1 = word; None = no padding) -> [B, S, 2H]; padding keeps the state."""
        size = x.shape[1]
        directions = []
        for cell, order in ((self.forwards, range(size)), (self.backwards, range(size - 1, -1, -1))):
            projected = cell.project(x).unbind(1)
            state = x.new_zeros(x.shape[0], self.state_dim, dtype=torch.float32)
            states: list[Tensor] = [state] * size
            for i in order:
                following = cell(projected[i], state)
                state = following if mask is None else torch.where(mask[:, i : i + 1], following, state)
                states[i] = state
            directions.append(torch.stack(states, dim=1))
        return torch.cat(directions, dim=-1)


class Attention(nn.Module):
    """Attention over the source: CUBE eq. 4-5 ("mlp") or the product of two tanh layers of SHARP section 4."""

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

    def forward(self, query: Tensor, keys: Tensor, memory: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Query [R, Q], keys [R, S, A], memory [R, S, M], mask [R, S] -> context [R, M] and weights [R, S]."""
        query = F.linear(query, self.query_weight)
        if self.kind == "mlp":
            scores = torch.tanh(keys + query[:, None, :]) @ self.score_weight.to(keys.dtype)
        else:
            scores = (keys @ torch.tanh(query)[:, :, None].to(keys.dtype))[:, :, 0]
        scores = scores.float()
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return torch.bmm(weights[:, None, :].to(memory.dtype), memory)[:, 0], weights


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
            query_dim = c.decoder_dim
        else:
            self.first = GRU(c.embedding_dim + c.memory_dim, c.decoder_dim)
            query_dim = c.decoder_dim + c.embedding_dim
        self.attention = Attention(c.attention, query_dim, c.memory_dim, c.attention_dim)
        self.fc = nn.ModuleList(nn.Linear(c.decoder_dim if i == 0 else c.fc_dim, c.fc_dim) for i in range(c.fc_layers))
        below = c.fc_dim if c.fc_layers else c.decoder_dim
        if c.top == "tanh":
            self.top = nn.Linear(below, c.top_dim)
        elif c.top == "gru":
            self.top_gru = GRU(below, c.top_dim)
        if c.readout != "none":
            self.readout = nn.Linear(c.stack_dim + c.memory_dim + c.embedding_dim, c.hidden_dim)

    @property
    def state_dim(self) -> int:
        """Width of a row's state: the bottom state, then the top GRU's where there is one."""
        return self.config.decoder_dim + (self.config.top_dim if self.config.top == "gru" else 0)

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
        return F.pad(bottom, (0, self.state_dim - bottom.shape[1]))

    def bottom(
        self, embedded: Tensor, projected: Tensor, state: Tensor, memory: EncodedSources
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step of the bottom cell -> state [R, H], context [R, M], attention weights [R, S].

        Conditional (CUBE eq. 13-14): s~ = GRU1(e, s);  c = attend(s~);  s' = GRU2(c, s~).
        Attentional (SHARP section 4): c = attend(s, e);  s' = GRU([e; c], s).
        """
        if self.config.decoder_cell == "conditional":
            between = self.first(projected, state)
            context, weights = self.attention(between, memory.keys, memory.values, memory.mask)
            return self.second(self.second.project(context), between), context, weights
        query = torch.cat([state, embedded], dim=-1)
        context, weights = self.attention(query, memory.keys, memory.values, memory.mask)
        split = self.config.embedding_dim
        projected = projected + F.linear(context, self.first.input_weight[:, split:])
        return self.first(projected, state), context, weights

    def project(self, embedded: Tensor) -> Tensor:
        """The word's share of the bottom cell's gates, [..., E] -> [..., 3H]."""
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

    def read(self, top: Tensor, context: Tensor, embedded: Tensor) -> Tensor:
        """The hidden vector t = g(e, c, s) (CUBE eq. 7), or the top layer itself."""
        if self.config.readout == "none":
            return top
        hidden: Tensor = self.readout(torch.cat([top, context, embedded], dim=-1))
        return torch.tanh(hidden) if self.config.readout == "tanh" else hidden

    def step(self, embedded: Tensor, state: Tensor, memory: EncodedSources) -> tuple[Tensor, Tensor, Tensor]:
        """Word [R, E] and state [R, state_dim] -> hidden [R, D], next state, attention weights [R, S]."""
        size = self.config.decoder_dim
        bottom, context, weights = self.bottom(embedded, self.project(embedded), state[:, :size], memory)
        top = self.stack(bottom)
        if self.config.top == "tanh":
            top = torch.tanh(self.top(top))
        elif self.config.top == "gru":
            top = self.top_gru(self.top_gru.project(top), state[:, size:])
            bottom = torch.cat([bottom, top], dim=-1)
        return self.read(top, context, embedded), bottom, weights

    def forward(self, embedded: Tensor, memory: EncodedSources, state: Tensor) -> Tensor:
        """Teacher forcing: words [B, T, E] -> hidden [B, T, D]; all but the recurrences is done for all T at once."""
        size = self.config.decoder_dim
        state, top_state, projected = state[:, :size], state[:, size:], self.project(embedded)
        states, contexts = [], []
        for t in range(embedded.shape[1]):
            state, context, _ = self.bottom(embedded[:, t], projected[:, t], state, memory)
            states.append(state)
            contexts.append(context)
        top = self.stack(torch.stack(states, dim=1))
        if self.config.top == "tanh":
            top = torch.tanh(self.top(top))
        elif self.config.top == "gru":
            top = self._scan(top, top_state)
        return self.read(top, torch.stack(contexts, dim=1), embedded)

    def _scan(self, below: Tensor, state: Tensor) -> Tensor:
        projected = self.top_gru.project(below).unbind(1)
        states = []
        for gates in projected:
            state = self.top_gru(gates, state)
            states.append(state)
        return torch.stack(states, dim=1)


class GruModule(TranslationModule):
    """Source and target ids -> hidden vectors."""

    def __init__(self, config: GruConfig, dropout: float = 0.0) -> None:
        super().__init__(config, dropout)
        self.encoder = nn.ModuleList(
            BidirectionalGRU(config.embedding_dim if i == 0 else config.memory_dim, config.encoder_dim)
            for i in range(config.encoder_layers)
        )
        self.decoder = GruDecoder(config)
        self.state_dim = self.decoder.state_dim

    def encode(self, source: Tensor, mask: Tensor | None) -> tuple[EncodedSources, Tensor]:
        """Source ids [B, S], mask [B, S] bool (None = no padding) -> memory, initial states [B, state_dim]."""
        x = self.embed_source(source)
        for layer in self.encoder:
            x = self.dropout(layer(x, mask))
        memory = EncodedSources(x, self.decoder.attention.keys(x), mask)
        return memory, self.decoder.begin(memory)

    def step(self, token: Tensor, state: Tensor, memory: EncodedSources) -> tuple[Tensor, Tensor, Tensor]:
        """Ids [R] and states [R, state_dim] -> hidden [R, D], next states, attention [R, S]."""
        step: tuple[Tensor, Tensor, Tensor] = self.decoder.step(self.embed(token), state, memory)
        return step

    def forward(self, source: Tensor, mask: Tensor | None, target: Tensor) -> Tensor:
        """Source [B, S] and the target shifted right [B, T] -> hidden [B, T, D]."""
        hidden: Tensor = self.dropout(self.decoder(self.embed(target), *self.encode(source, mask)))
        return hidden
