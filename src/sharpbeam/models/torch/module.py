"""The common base of the PyTorch modules of translation models: the interface for training and decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


@dataclass
class EncodedSources:
    """The encoded requests as the decoder reads them; `mask` is None if nothing is padded."""

    values: Tensor  # [B, S, M]
    keys: Tensor  # [B, S, A]
    mask: Tensor | None  # [B, S] bool


class TranslationModule(nn.Module):
    """Source and target ids -> hidden vectors. The output matrix is held here but applied by an output layer only.

    A row continues its state. The states of a batch are a tensor [R, width], or a class of the architecture.
    """

    config: TranslationConfig
    longest = 1 << 20  # most words of a source, and of a target

    def __init__(self, config: TranslationConfig, dropout: float) -> None:
        super().__init__()
        self.config = config
        self.dropout = LockedDropout(dropout)
        words, width, hidden = config.target_vocab_size, config.embedding_dim, config.hidden_dim
        self.target_embedding = nn.Parameter(torch.randn(words, width) * width**-0.5)
        if not config.shared_embedding:
            self.source_embedding = nn.Parameter(torch.randn(config.source_vocab_size, width) * width**-0.5)
        if not config.tied_output:
            self.output_weight = nn.Parameter(torch.randn(words, hidden) * hidden**-0.5)
        self.output_bias = nn.Parameter(torch.zeros(words))

    def output(self) -> tuple[Tensor, Tensor]:
        """Output matrix [V, D] and bias [V], for the output_layer."""
        return (self.target_embedding if self.config.tied_output else self.output_weight), self.output_bias

    def embed(self, token: Tensor) -> Tensor:
        """Target ids [...] -> [..., E]."""
        words: Tensor = self.dropout(F.embedding(token, self.target_embedding))
        return words

    def embed_source(self, token: Tensor) -> Tensor:
        """Source ids [...] -> [..., E]."""
        table = self.target_embedding if self.config.shared_embedding else self.source_embedding
        words: Tensor = self.dropout(F.embedding(token, table))
        return words

    def encode(self, source: Tensor, mask: Tensor | None) -> tuple[EncodedSources, Any]:
        """Source ids [B, S], mask [B, S] bool (None = no padding) -> memory, initial states of B rows."""
        raise NotImplementedError

    def step(self, token: Tensor, state: Any, memory: EncodedSources) -> tuple[Tensor, Any, Tensor]:
        """Ids [R] and the states of R rows -> hidden [R, D], next states, attention [R, S]. Not for training."""
        raise NotImplementedError

    def balance_loss(self) -> Tensor | None:
        """The load-balancing loss of the last forward pass in training; None without a mixture of experts."""
        return None

    def forward(self, source: Tensor, mask: Tensor | None, target: Tensor) -> Tensor:
        """Teacher forcing: source [B, S] and the target shifted right [B, T] -> hidden [B, T, D]."""
        raise NotImplementedError
