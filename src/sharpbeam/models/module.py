"""The common base of the PyTorch modules of translation models, and the recurrent parts. A GPU runs transformers alone.

Shapes: B requests or rows, S source length, T target length, E embedding, M memory, A keys, D hidden, H one cell.
All tensors are float32; `forward` may run under bfloat16 autocast, the states of recurrent models stay float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sharpbeam.models.registry import TranslationConfig


class LockedDropout(nn.Module):
    """Dropout with one mask for all positions of a sequence, which recurrent nets need (and which is cheaper)."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def mask(self, rows: int, width: int, device: torch.device) -> Tensor | None:
        """The factors of one position, [rows, width]; None if nothing is dropped."""
        if not self.training or self.share == 0.0:
            return None
        return (torch.rand(rows, width, device=device) >= self.share) / (1.0 - self.share)

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, D] -> the same shape."""
        mask = self.mask(x.shape[0], x.shape[-1], x.device)
        return x if mask is None else x * mask[:, None].to(x.dtype)


class TranslationModule(nn.Module):
    """Source and target ids -> hidden vectors. The output matrix is held here but applied by an output layer only."""

    config: TranslationConfig

    def __init__(self, config: TranslationConfig, dropout: float) -> None:
        super().__init__()
        self.config = config
        self.dropout = LockedDropout(dropout)
        tokens, width, hidden = config.target_vocab_size, config.embedding_dim, config.hidden_dim
        self.target_embedding = nn.Parameter(torch.randn(tokens, width) * width**-0.5)
        if not config.shared_embedding:
            self.source_embedding = nn.Parameter(torch.randn(config.source_vocab_size, width) * width**-0.5)
        if not config.tied_output:
            self.output_weight = nn.Parameter(torch.randn(tokens, hidden) * hidden**-0.5)
        self.output_bias = nn.Parameter(torch.zeros(tokens))

    def output(self) -> tuple[Tensor, Tensor]:
        """Output matrix [V, D] and bias [V], for the output layer."""
        return (self.target_embedding if self.config.tied_output else self.output_weight), self.output_bias

    def embed(self, side: str, token: Tensor) -> Tensor:
        """Ids [...] of the side "source" or "target" -> [..., E]."""
        shared = side == "target" or self.config.shared_embedding
        return F.embedding(token, self.target_embedding if shared else self.source_embedding)

    def balance_loss(self) -> Tensor | None:
        """The load-balancing loss of the last forward pass in training; None without a mixture of experts."""
        return None

    def forward(self, source: Tensor, mask: Tensor | None, target: Tensor) -> Tensor:
        """Teacher forcing: source [B, S] and the target shifted right [B, T] -> hidden [B, T, D].

        `mask` [B, S] bool is true for tokens and false for padding; None if nothing is padded.
        """
        raise NotImplementedError


class Cell(nn.Module):
    """The weights of a recurrent cell in PyTorch's form, its gates one below the other."""

    gates: int
    vectors = 1
    """Vectors [H] that a state has side by side; the first one is the output."""

    def __init__(self, input_dim: int, state_dim: int) -> None:
        super().__init__()
        self.state_dim = state_dim
        self.input_weight = nn.Parameter(torch.empty(self.gates * state_dim, input_dim))
        self.input_bias = nn.Parameter(torch.zeros(self.gates * state_dim))
        self.hidden_weight = nn.Parameter(torch.empty(self.gates * state_dim, state_dim))
        self.hidden_bias = nn.Parameter(torch.zeros(self.gates * state_dim))
        for gate in range(self.gates):
            rows = slice(gate * state_dim, (gate + 1) * state_dim)
            nn.init.xavier_uniform_(self.input_weight.data[rows])
            nn.init.orthogonal_(self.hidden_weight.data[rows])

    def project(self, x: Tensor) -> Tensor:
        """The input's share of the gates, [..., input_dim] -> [..., gates H]; may be taken for all positions."""
        return F.linear(x, self.input_weight, self.input_bias)

    def forward(self, projected: Tensor, state: Tensor) -> Tensor:
        """One step: projected input [B, gates H] and state [B, vectors H] -> next state."""
        raise NotImplementedError


class Bidirectional(nn.Module):
    """One encoder layer (CUBE eq. 1-3): a cell in each direction, the outputs of both side by side."""

    def __init__(self, cell: Callable[[int, int], Cell], input_dim: int, state_dim: int) -> None:
        super().__init__()
        self.forwards = cell(input_dim, state_dim)
        self.backwards = cell(input_dim, state_dim)

    def forward(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """[B, S, input_dim] and mask [B, S] (1 = token; None = no padding) -> [B, S, 2 H] and both last states.

        Padding keeps the state. The last states are those after the last token (forwards) and the first (backwards).
        """
        size = x.shape[1]
        directions, last = [], []
        for cell, order in ((self.forwards, range(size)), (self.backwards, range(size - 1, -1, -1))):
            projected = cell.project(x).unbind(1)
            state = x.new_zeros(x.shape[0], cell.vectors * cell.state_dim, dtype=torch.float32)
            outputs: list[Tensor] = [state] * size
            for i in order:
                following = cell(projected[i], state)
                state = following if mask is None else torch.where(mask[:, i : i + 1], following, state)
                outputs[i] = state[:, : cell.state_dim]
            directions.append(torch.stack(outputs, dim=1))
            last.append(state)
        return torch.cat(directions, dim=-1), last


@dataclass
class EncodedSources:
    """The encoded requests as the decoder reads them; `mask` is None if nothing is padded."""

    values: Tensor  # [B, S, M]
    keys: Tensor  # [B, S, A]
    mask: Tensor | None  # [B, S] bool

    def mean_by(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """The mean of the values [B, M] by the softmax of scores [B, S], and these weights [B, S] float32."""
        scores = scores.float()
        if self.mask is not None:
            scores = scores.masked_fill(~self.mask, float("-inf"))
        weights = torch.softmax(scores, dim=-1)
        return torch.bmm(weights[:, None, :].to(self.values.dtype), self.values)[:, 0], weights


class RecurrentModule(TranslationModule):
    """A translation model whose rows have a state of one vector [state_dim] float32."""

    def encode(self, source: Tensor, mask: Tensor | None) -> tuple[EncodedSources, Tensor]:
        """Source ids [B, S], mask [B, S] bool (None = no padding) -> memory, initial states [B, state_dim]."""
        raise NotImplementedError

    def read(self, target: Tensor, state: Tensor, memory: EncodedSources) -> tuple[Tensor, Tensor, Tensor]:
        """Target ids [B, T] after states [B, state_dim] -> hidden [B, T, D], last states, last attention [B, S]."""
        raise NotImplementedError

    def forward(self, source: Tensor, mask: Tensor | None, target: Tensor) -> Tensor:
        """Source [B, S] and the target shifted right [B, T] -> hidden [B, T, D]."""
        memory, state = self.encode(source, mask)
        return self.read(target, state, memory)[0]
