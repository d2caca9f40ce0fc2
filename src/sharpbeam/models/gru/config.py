"""The facts of a recurrent encoder-decoder: one architecture for the models of the papers CUBE and SHARP.

CUBE-1 (Zhang et al. 2018, eq. 1-9, 13-14): ``decoder_cell="conditional"``, ``attention="mlp"``, ``readout="linear"``.
SHARP-6 (Devlin 2017, section 5): ``decoder_cell="attentional"``, ``attention="tanh_dot"``, ``fc_layers`` = 3, 7 or 15,
``top`` = "tanh" or "gru", ``readout="none"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sharpbeam.models.config import ModelConfig, Shapes, cell, embeddings, linear, output
from sharpbeam.types import Footprint

GATES = 3  # in the order r, z, n


@dataclass(frozen=True)
class GruConfig(ModelConfig):
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

    def check(self) -> None:
        """Raise ModelError if the decoder's layers do not fit on each other."""
        layers, top, bottom = self.fc_layers, f"with top {self.top!r}", self.decoder_dim
        self.need("fc_layers", layers >= 0, "0 or more")
        self.need("fc_dim", not layers or self.fc_dim >= 1, f"1 or more with fc_layers {layers}")
        self.need("top_dim", self.top == "none" or self.top_dim >= 1, f"1 or more {top}")
        continues = self.top == "gru" and self.top_dim == bottom
        allowed = f"'zero' {top} and top_dim {self.top_dim}: 'bottom' needs top 'gru' and top_dim {bottom}"
        self.need("top_start", continues or self.top_start != "bottom", allowed)
        is_top = self.hidden_dim == self.stack_dim
        self.need("hidden_dim", is_top or self.readout != "none", f"{self.stack_dim}, the top layer's, without readout")

    def tensor_shapes(self) -> Shapes:
        """Every tensor by name."""
        c, shapes = self, embeddings(self)
        for layer in range(c.encoder_layers):
            width = c.memory_dim if layer else c.embedding_dim
            for direction in ("forwards", "backwards"):
                shapes |= cell(f"encoder.{layer}.{direction}", GATES, width, c.encoder_dim)
        shapes |= linear("decoder.bridge", c.memory_dim, c.decoder_dim)
        if c.decoder_cell == "conditional":
            shapes |= cell("decoder.first", GATES, c.embedding_dim, c.decoder_dim)
            shapes |= cell("decoder.second", GATES, c.memory_dim, c.decoder_dim)
        else:
            shapes |= cell("decoder.first", GATES, c.embedding_dim + c.memory_dim, c.decoder_dim)
        shapes["decoder.attention.query_weight"] = (c.attention_dim, c.query_dim)
        shapes["decoder.attention.key_weight"] = (c.attention_dim, c.memory_dim)
        shapes["decoder.attention.key_bias"] = (c.attention_dim,)
        if c.attention == "mlp":
            shapes["decoder.attention.score_weight"] = (c.attention_dim,)
        for layer in range(c.fc_layers):
            shapes |= linear(f"decoder.fc.{layer}", c.fc_dim if layer else c.decoder_dim, c.fc_dim)
        if c.top == "tanh":
            shapes |= linear("decoder.top", c.below_top, c.top_dim)
        elif c.top == "gru":
            shapes |= cell("decoder.top_gru", GATES, c.below_top, c.top_dim)
        if c.readout != "none":
            shapes |= linear("decoder.readout", c.stack_dim + c.memory_dim + c.embedding_dim, c.hidden_dim)
        return shapes | output(c)

    @property
    def memory_dim(self) -> int:
        """Width of one source position as the decoder sees it: both directions side by side."""
        return 2 * self.encoder_dim

    @property
    def stack_dim(self) -> int:
        """Width of the uppermost decoder layer, below the readout."""
        return self.below_top if self.top == "none" else self.top_dim

    @property
    def below_top(self) -> int:
        """Width of the layer below the top one."""
        return self.fc_dim if self.fc_layers else self.decoder_dim

    @property
    def query_dim(self) -> int:
        """Width of the vector that asks for attention."""
        return self.decoder_dim + (0 if self.decoder_cell == "conditional" else self.embedding_dim)

    @property
    def state_dim(self) -> int:
        """Width of a row's state: the bottom state, then the top GRU's if there is one."""
        return self.decoder_dim + (self.top_dim if self.top == "gru" else 0)

    @property
    def footprint(self) -> Footprint:
        """Memory of rows and source positions in float32."""
        gates = 2 * GATES * self.state_dim
        stack = self.fc_layers and 3 * self.fc_dim
        readout = self.stack_dim + self.memory_dim + self.embedding_dim
        step = 2 * self.decoder_dim + gates + stack + readout + self.attention_dim + self.memory_dim + self.hidden_dim
        keys = (2 if self.attention == "mlp" else 1) * self.attention_dim  # in doubles
        encoding = 2 * self.memory_dim + 3 * self.encoder_dim  # a layer's input, output and gates
        return Footprint(row=4 * (2 * self.state_dim + step), position=4 * (self.memory_dim + keys + encoding))
