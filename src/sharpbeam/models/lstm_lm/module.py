"""The LSTM language model in PyTorch: training, and the slow truth that the native twin must equal.

Shapes: B columns or rows, T positions, L layers, E embedding, D hidden, V vocabulary; all float32.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sharpbeam.models.lstm_lm.config import LstmLmConfig

State = tuple[Tensor, Tensor]  # outputs and cells of all layers, [L, B, D] each


class LstmLmModule(nn.Module):
    """Word ids -> hidden vectors. The output matrix is held here but applied by an output layer only.

    For each layer i, f, o = sigmoid(W x + b + U h + c), g = tanh(W x + b + U h + c), cell' = f cell + i g,
    h' = o tanh(cell'). Dropout is between layers only, never from one position to the next (Zaremba et al. 2014).
    """

    def __init__(self, config: LstmLmConfig, dropout: float = 0.0) -> None:
        super().__init__()
        self.config = config
        self.dropout = nn.Dropout(dropout)
        self.embedding = nn.Parameter(torch.empty(config.vocab_size, config.embedding_dim))
        between = dropout if config.layers > 1 else 0.0
        self.lstm = nn.LSTM(config.embedding_dim, config.hidden_dim, config.layers, dropout=between, batch_first=True)
        if not config.tied_output:
            self.output_weight = nn.Parameter(torch.empty(config.vocab_size, config.hidden_dim))
        self.output_bias = nn.Parameter(torch.empty(config.vocab_size))
        scale = 1.5 * config.hidden_dim**-0.5  # 0.1 at a width of 200 and 0.04 at 1500, as in the paper
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -scale, scale)

    def output(self) -> tuple[Tensor, Tensor]:
        """Output matrix [V, D] and bias [V], for the output_layer."""
        return (self.embedding if self.config.tied_output else self.output_weight), self.output_bias

    def begin(self, columns: int) -> State:
        """The state before any word: zeros."""
        zeros = self.output_bias.new_zeros(self.config.layers, columns, self.config.hidden_dim)
        return zeros, zeros

    def forward(self, token: Tensor, state: State) -> tuple[Tensor, State]:
        """Ids [B, T] and the state before them -> hidden [B, T, D] and the state after them."""
        hidden, state = self.lstm(self.dropout(F.embedding(token, self.embedding)), state)
        return self.dropout(hidden), state
