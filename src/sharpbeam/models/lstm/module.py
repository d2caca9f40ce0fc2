"""The LSTM encoder-decoder in PyTorch: training, GPU, and the slow truth that the native twin must equal.

Shapes: B requests or rows, S source length, T target length, E embedding, D hidden. All tensors are float32; `forward`
may run under bfloat16 autocast, the cells stay float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.torch.module import EncodedSources, TranslationModule

RESIDUAL_FROM = 2  # the third layer


class LSTM(nn.Module):
    """The weights of a long short-term memory in PyTorch's form, gates in the order i, f, g, o.

    i, f, o = sigmoid(W x + b + U h + c), g = tanh(W x + b + U h + c), cell' = f cell + i g, h' = o tanh(cell').
    """

    def __init__(self, input_dim: int, state_dim: int) -> None:
        super().__init__()
        self.input_weight = nn.Parameter(torch.empty(4 * state_dim, input_dim))
        self.input_bias = nn.Parameter(torch.zeros(4 * state_dim))
        self.hidden_weight = nn.Parameter(torch.empty(4 * state_dim, state_dim))
        self.hidden_bias = nn.Parameter(torch.zeros(4 * state_dim))
        for gate in range(4):
            rows = slice(gate * state_dim, (gate + 1) * state_dim)
            nn.init.xavier_uniform_(self.input_weight.data[rows])
            nn.init.orthogonal_(self.hidden_weight.data[rows])
        self.input_bias.data[state_dim : 2 * state_dim] = 1.0  # forget nothing at first

    @property
    def bias(self) -> Tensor:
        """Both biases, [4D]."""
        return self.input_bias + self.hidden_bias


def update(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Gates [B, 4D] before their activation and cell [B, D] -> next output and cell."""
    into, forget, new, out = gates.float().chunk(4, dim=-1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(into) * torch.tanh(new)
    return torch.sigmoid(out) * torch.tanh(cell), cell


def low(x: Tensor) -> Tensor:
    """`x` as autocast would have it for a product; once for all steps."""
    kind = x.device.type
    return x.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else x


class BidirectionalLSTM(nn.Module):
    """One encoder layer: an LSTM in each direction, the outputs of both side by side."""

    def __init__(self, input_dim: int, state_dim: int) -> None:
        super().__init__()
        self.forwards = LSTM(input_dim, state_dim)
        self.backwards = LSTM(input_dim, state_dim)
        self.state_dim = state_dim

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """[B, S, input_dim] and mask [B, S] (1 = word; None = no padding) -> outputs [B, S, D], last output and cell.

        Padding keeps the state. The last states are those after the last token (forwards) and the first (backwards).
        """
        size = x.shape[1]
        directions, last_outputs, last_cells = [], [], []
        for lstm, order in ((self.forwards, range(size)), (self.backwards, range(size - 1, -1, -1))):
            projected = F.linear(x, lstm.input_weight, lstm.bias).unbind(1)
            weight = low(lstm.hidden_weight)
            output = cell = x.new_zeros(x.shape[0], self.state_dim, dtype=torch.float32)
            outputs: list[Tensor] = [output] * size
            for i in order:
                following = update(projected[i] + F.linear(output, weight), cell)
                if mask is None:
                    output, cell = following
                else:
                    keep = mask[:, i : i + 1]
                    output, cell = torch.where(keep, following[0], output), torch.where(keep, following[1], cell)
                outputs[i] = output
            directions.append(torch.stack(outputs, dim=1))
            last_outputs.append(output)
            last_cells.append(cell)
        return torch.cat(directions, -1), torch.cat(last_outputs, -1), torch.cat(last_cells, -1)


class LstmDecoder(nn.Module):
    """LSTMs over the word and the last hidden vector (input feeding), general attention, a tanh layer over both.

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

    def words(self, embedded: Tensor) -> Tensor:
        """The word's share of the lowest layer's gates, [..., E] -> [..., 4D]; may be taken for all positions."""
        first = self._lstms()[0]
        return F.linear(embedded, first.input_weight[:, : self.config.embedding_dim], first.bias)

    def weights(self) -> list[tuple[Tensor, Tensor | None]]:
        """For each layer the weights of its input (without the word) and of its own output, side by side."""
        result: list[tuple[Tensor, Tensor | None]] = []
        for i, lstm in enumerate(self._lstms()):
            below = lstm.input_weight if i else lstm.input_weight[:, self.config.embedding_dim :]
            result.append((low(torch.cat([below, lstm.hidden_weight], 1)), low(lstm.bias) if i else None))
        return result

    def _lstms(self) -> list[LSTM]:
        return cast(list[LSTM], list(self.layers))

    def advance(
        self,
        words: Tensor,
        state: list[Tensor],
        memory: EncodedSources,
        weights: list[tuple[Tensor, Tensor | None]],
        masks: Sequence[Tensor | None],
    ) -> tuple[list[Tensor], Tensor]:
        """One step: `words` [B, 4D] and state (hidden, then each layer's output and cell) -> next state, attention."""
        below, result = state[0], []
        for i, (weight, bias) in enumerate(weights):
            output, cell = state[1 + 2 * i : 3 + 2 * i]
            gates = F.linear(torch.cat([below, output], dim=-1), weight, bias)
            output, cell = update(gates if i else words + gates, cell)
            result += [output, cell]
            above = _drop(output, masks[i])
            below = above + below if self.config.residual and i >= RESIDUAL_FROM else above
        context, attention = self._attend(below, memory)
        hidden = torch.tanh(F.linear(torch.cat([context, below], dim=-1), self.readout_weight))
        return [_drop(hidden.float(), masks[-1]), *result], attention

    def _attend(self, query: Tensor, memory: EncodedSources) -> tuple[Tensor, Tensor]:
        """Context [B, D], the mean of the memory, and its weights [B, S], the softmax of query times key."""
        scores = torch.bmm(memory.keys, query[:, :, None].to(memory.keys.dtype))[:, :, 0].float()
        if memory.mask is not None:
            scores = scores.masked_fill(~memory.mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        context = torch.bmm(weights[:, None, :].to(memory.values.dtype), memory.values)[:, 0]
        return context.to(query.dtype), weights


def _drop(x: Tensor, mask: Tensor | None) -> Tensor:
    return x if mask is None else x * mask


class LstmAttentionModule(TranslationModule):
    """Source and target ids -> hidden vectors.

    Dropout is on words, between layers, and on the hidden vector, also where it is fed back, as in OpenNMT; but one
    mask serves all positions of a sequence.
    """

    def __init__(self, config: LstmAttentionConfig, dropout: float = 0.0) -> None:
        super().__init__(config, dropout)
        self.layers, self.state_dim, self.residual = config.layers, config.state_dim, config.residual
        half = config.hidden_dim // 2
        self.encoder = nn.ModuleList(
            BidirectionalLSTM(config.hidden_dim if i else config.embedding_dim, half) for i in range(config.layers)
        )
        self.decoder = LstmDecoder(config)

    def encode(self, source: Tensor, mask: Tensor | None) -> tuple[EncodedSources, Tensor]:
        """Source ids [B, S], mask [B, S] bool (None = no padding) -> memory, initial states [B, state_dim].

        A layer of the decoder begins with the last output and cell of the encoder's; no hidden vector is fed at first.
        """
        x = self.embed_source(source)
        states = [x.new_zeros(x.shape[0], self.config.hidden_dim, dtype=torch.float32)]
        for i, layer in enumerate(self.encoder):
            below = x
            x, output, cell = layer(self.dropout(x) if i else x, mask)
            states += [output, cell]
            if self.residual and i >= RESIDUAL_FROM:
                x = x + below
        x = low(self.dropout(x))
        return EncodedSources(x, F.linear(x, self.decoder.key_weight), mask), torch.cat(states, dim=-1)

    def step(self, token: Tensor, state: Tensor, memory: EncodedSources) -> tuple[Tensor, Tensor, Tensor]:
        """Ids [R] and states [R, state_dim] -> hidden [R, D], next states, attention [R, S]. Not for training."""
        states = list(state.chunk(1 + 2 * self.layers, dim=-1))
        words, none = self.decoder.words(self.embed(token)), [None] * (self.layers + 1)
        following, attention = self.decoder.advance(words, states, memory, self.decoder.weights(), none)
        return following[0], torch.cat(following, dim=-1), attention

    def forward(self, source: Tensor, mask: Tensor | None, target: Tensor) -> Tensor:
        """Teacher forcing: source [B, S] and the target shifted right [B, T] -> hidden [B, T, D]."""
        memory, state = self.encode(source, mask)
        dim = self.config.hidden_dim
        masks = [self.dropout.mask(len(state), dim, state.device) for _ in range(self.layers + 1)]
        words, weights = self.decoder.words(self.embed(target)).unbind(1), self.decoder.weights()
        states = list(state.chunk(1 + 2 * self.layers, dim=-1))
        hidden = []
        for word in words:
            states, _ = self.decoder.advance(word, states, memory, weights, masks)
            hidden.append(states[0])
        return torch.stack(hidden, dim=1)
