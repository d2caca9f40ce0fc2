"""The common base of the PyTorch modules of translation models, which training and GPUs use."""

from __future__ import annotations

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
