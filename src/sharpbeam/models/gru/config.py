"""The facts of a recurrent encoder-decoder: one architecture for the models of the papers CUBE and SHARP.

CUBE-1 (Zhang et al. 2018, eq. 1-9, 13-14): ``decoder_cell="conditional"``, ``attention="mlp"``, ``readout="linear"``.
SHARP-6 (Devlin 2017, section 5): ``decoder_cell="attentional"``, ``attention="tanh_dot"``, ``fc_layers`` = 3, 7 or 15,
``top`` = "tanh" or "gru", ``readout="none"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sharpbeam.models.config import check_choices, check_sizes, check_translation, need
from sharpbeam.types import Footprint


@dataclass(frozen=True)
class GruConfig:
    """Sizes and shape of a recurrent translation model; saved in ``config.json`` next to the weights."""

    source_vocab_size: int
    target_vocab_size: int
    embedding_dim: int = 256  # E, both sides
    encoder_layers: int = 1  # bidirectional GRU layers, 1-3 in the papers
    encoder_dim: int = 256  # width of one direction; the memory is twice as wide
    decoder_dim: int = 512  # H, the bottom recurrent state
    decoder_cell: Literal["conditional", "attentional"] = "conditional"
    attention: Literal["mlp", "tanh_dot"] = "mlp"
    attention_dim: int = 512  # A
    fc_layers: int = 0  # ReLU layers above the bottom cell, residual every other one (SHARP-6)
    fc_dim: int = 0
    top: Literal["none", "tanh", "gru"] = "none"
    top_dim: int = 0
    top_start: Literal["zero", "bottom"] = "zero"  # a top GRU's first state: zeros, or that of the bottom cell (Marian)
    readout: Literal["none", "linear", "tanh"] = "linear"  # CUBE eq. 7: t = g(e, c, s)
    hidden_dim: int = 256  # D, seen by the output layer
    shared_embedding: bool = False  # source and target embeddings are one tensor
    tied_output: bool = False  # the output matrix is the target embedding
    unk_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    pad_id: int = 3

    def __post_init__(self) -> None:
        check_sizes(self)
        check_choices(self)
        layers, dim, top = self.fc_layers, self.fc_dim, f"top {self.top!r}"
        need(layers >= 0, f"fc_layers is {layers}; it must be 0 or more.")
        need(not layers or dim >= 1, f"fc_dim is {dim}; with fc_layers {layers} it must be 1 or more.")
        is_sized = self.top == "none" or self.top_dim >= 1
        need(is_sized, f"top_dim is {self.top_dim}; with {top} it must be 1 or more.")
        need(
            self.top_start != "bottom" or (self.top == "gru" and self.top_dim == self.decoder_dim),
            f"top_start is 'bottom' with {top} and top_dim {self.top_dim}; it needs top 'gru' and a top_dim of "
            f"decoder_dim, {self.decoder_dim}.",
        )
        need(
            self.readout != "none" or self.hidden_dim == self.stack_dim,
            f"without a readout the hidden vector is the top layer's: hidden_dim must be {self.stack_dim}, "
            f"not {self.hidden_dim}.",
        )
        check_translation(self)

    @property
    def memory_dim(self) -> int:
        """Width of one source position as the decoder sees it: both directions side by side."""
        return 2 * self.encoder_dim

    @property
    def stack_dim(self) -> int:
        """Width of the uppermost decoder layer, below the readout."""
        if self.top != "none":
            return self.top_dim
        return self.fc_dim if self.fc_layers else self.decoder_dim

    @property
    def footprint(self) -> Footprint:
        """Memory of rows and source positions in float32."""
        top = self.top_dim if self.top == "gru" else 0
        state = self.decoder_dim + top
        gates = 2 * 3 * (self.decoder_dim + top)
        stack = self.fc_layers and 3 * self.fc_dim
        readout = self.stack_dim + self.memory_dim + self.embedding_dim
        step = 2 * self.decoder_dim + gates + stack + readout + self.attention_dim + self.memory_dim + self.hidden_dim
        keys = (2 if self.attention == "mlp" else 1) * self.attention_dim  # in doubles
        encoding = 2 * self.memory_dim + 3 * self.encoder_dim  # a layer's input, output and gates
        return Footprint(row=4 * (2 * state + step), position=4 * (self.memory_dim + keys + encoding))
