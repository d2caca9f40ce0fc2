"""The LSTM encoder-decoder in PyTorch: training, and the slow truth that the native twin must equal.

Shapes as in models/module.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.module import Bidirectional, Cell, EncodedSources, RecurrentModule

RESIDUAL_FROM = 2  # the third layer


class LSTM(Cell):
    """A long short-term memory, gates in the order i, f, g, o; its state is output and cell side by side.

    i, f, o = sigmoid(W x + b + U h + c), g = tanh(W x + b + U h + c), cell' = f cell + i g, h' = o tanh(cell').
    """

    gates, vectors = 4, 2

    def __init__(self, input_dim: int, state_dim: int) -> None:
        super().__init__(input_dim, state_dim)
        self.input_bias.data[state_dim : 2 * state_dim] = 1.0  # forget nothing at first

    @property
    def bias(self) -> Tensor:
        """Both biases, [4H]."""
        return self.input_bias + self.hidden_bias

    def project(self, x: Tensor) -> Tensor:
        """The input's share of the gates and both biases, [..., input_dim] -> [..., 4H]."""
        return F.linear(x, self.input_weight, self.bias)

    def forward(self, projected: Tensor, state: Tensor) -> Tensor:
        """One step: projected input [B, 4H] and state [B, 2H] -> next state."""
        output, cell = state.chunk(2, dim=-1)
        return torch.cat(update(projected + F.linear(output, self.hidden_weight), cell), dim=-1)


def update(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Gates [B, 4H] before their activation and cell [B, H] -> next output and cell."""
    into, forget, new, out = gates.float().chunk(4, dim=-1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(into) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell


def low(x: Tensor) -> Tensor:
    """`x` as autocast would have it for a matmul; once for all steps."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


class LstmDecoder(nn.Module):
    """LSTMs over the token and the last hidden vector (input feeding), general attention, a tanh layer over both.

    Luong et al. (2015): score = h' W_a m (eq. 8, "general", over all positions), h~ = tanh(W_c [c; h]) (eq. 5). The
    hidden vector that an output layer sees is h~, which goes into the next step too (section 3.3).
    """

    def __init__(self, config: LstmAttentionConfig) -> None:
        super().__init__()
        dim = config.hidden_dim
        self.config = config
        self.layers = nn.ModuleList(LSTM(dim if i else config.embedding_dim + dim, dim) for i in range(config.layers))
        self.key_weight = nn.Parameter(torch.empty(dim, dim))
        self.readout_weight = nn.Parameter(torch.empty(dim, 2 * dim))
        nn.init.xavier_uniform_(self.key_weight)
        nn.init.xavier_uniform_(self.readout_weight)

    def forward(
        self, embedded: Tensor, state: Tensor, memory: EncodedSources, masks: Sequence[Tensor | None]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Tokens [B, T, E] after states [B, state_dim] -> hidden [B, T, D], last states, last attention [B, S].

        `masks` are dropout factors [B, D] of each layer's output and of the hidden vector; None drops nothing.
        """
        first, weights = cast(LSTM, self.layers[0]), self._weights()
        tokens = F.linear(embedded, first.input_weight[:, : self.config.embedding_dim], first.bias)
        parts = list(state.chunk(1 + 2 * self.config.layers, dim=-1))
        hidden, attention = [], state
        for token in tokens.unbind(1):
            parts, attention = self._advance(token, parts, memory, weights, masks)
            hidden.append(parts[0])
        return torch.stack(hidden, dim=1), torch.cat(parts, dim=-1), attention

    def _weights(self) -> list[tuple[Tensor, Tensor | None]]:
        """For each layer the weights of its input (without the token) and of its own output, side by side."""
        result: list[tuple[Tensor, Tensor | None]] = []
        for i, lstm in enumerate(cast(list[LSTM], list(self.layers))):
            below = lstm.input_weight if i else lstm.input_weight[:, self.config.embedding_dim :]
            result.append((low(torch.cat([below, lstm.hidden_weight], 1)), low(lstm.bias) if i else None))
        return result

    def _advance(
        self,
        token: Tensor,
        state: list[Tensor],
        memory: EncodedSources,
        weights: list[tuple[Tensor, Tensor | None]],
        masks: Sequence[Tensor | None],
    ) -> tuple[list[Tensor], Tensor]:
        """One step: `token` [B, 4D] and state (hidden, then each layer's output and cell) -> next state, attention."""
        below, result = state[0], []
        for i, (weight, bias) in enumerate(weights):
            output, cell = state[1 + 2 * i : 3 + 2 * i]
            gates = F.linear(torch.cat([below, output], dim=-1), weight, bias)
            output, cell = update(gates if i else token + gates, cell)
            result += [output, cell]
            above = _drop(output, masks[i])
            below = above + below if self.config.residual and i >= RESIDUAL_FROM else above
        scores = torch.bmm(memory.keys, below[:, :, None].to(memory.keys.dtype))[:, :, 0]
        context, attention = memory.mean_by(scores)
        hidden = torch.tanh(F.linear(torch.cat([context.to(below.dtype), below], dim=-1), self.readout_weight))
        return [_drop(hidden.float(), masks[-1]), *result], attention


def _drop(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x * mask


class LstmAttentionModule(RecurrentModule):
    """Source and target ids -> hidden vectors.

    Dropout is on tokens, between layers, and on the hidden vector, also where it is fed back, as in OpenNMT; but one
    mask serves all positions of a sequence.
    """

    def __init__(self, config: LstmAttentionConfig, dropout: float = 0.0) -> None:
        super().__init__(config, dropout)
        self.layers, self.residual = config.layers, config.residual
        half = config.hidden_dim // 2
        self.encoder = nn.ModuleList(
            Bidirectional(LSTM, config.hidden_dim if i else config.embedding_dim, half) for i in range(config.layers)
        )
        self.decoder = LstmDecoder(config)

    def encode(self, source: Tensor, mask: Tensor | None) -> tuple[EncodedSources, Tensor]:
        """Source ids [B, S], mask [B, S] bool (None = no padding) -> memory, initial states [B, state_dim].

        A layer of the decoder begins with the last output and cell of the encoder's; no hidden vector is fed at first.
        """
        x = self.dropout(self.embed("source", source))
        states = [x.new_zeros(x.shape[0], self.config.hidden_dim, dtype=torch.float32)]
        for i, layer in enumerate(self.encoder):
            below = x
            x, last = layer(self.dropout(x) if i else x, mask)
            states += [torch.cat(both, dim=-1) for both in zip(*(one.chunk(2, dim=-1) for one in last), strict=True)]
            if self.residual and i >= RESIDUAL_FROM:
                x = x + below
        x = low(self.dropout(x))
        return EncodedSources(x, F.linear(x, self.decoder.key_weight), mask), torch.cat(states, dim=-1)

    def read(self, target: Tensor, state: Tensor, memory: EncodedSources) -> tuple[Tensor, Tensor, Tensor]:
        """Target ids [B, T] after states [B, state_dim] -> hidden [B, T, D], last states, last attention [B, S]."""
        masks = [self.dropout.mask(len(state), self.config.hidden_dim, state.device) for _ in range(self.layers + 1)]
        answer: tuple[Tensor, Tensor, Tensor] = self.decoder(
            self.dropout(self.embed("target", target)), state, memory, masks
        )
        return answer
