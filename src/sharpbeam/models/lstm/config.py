"""The facts of an LSTM encoder-decoder with attention (L2S-14: OpenNMT, Klein et al. 2017; Luong et al. 2015)."""

from __future__ import annotations

from dataclasses import dataclass

from sharpbeam.models.config import ModelConfig, Shapes, cell, embeddings, output
from sharpbeam.types import Footprint

GATES = 4  # in the order i, f, g, o


@dataclass(frozen=True)
class LstmAttentionConfig(ModelConfig):
    """Sizes of an LSTM translation model; saved in ``config.json`` next to the weights."""

    source_vocab_size: int
    target_vocab_size: int
    embedding_dim: int = 500  # E, both sides
    layers: int = 2  # of the encoder and of the decoder, whose layers begin with the encoder's last states
    hidden_dim: int = 500  # D, of every layer; each direction of the encoder has half of it
    shared_embedding: bool = False  # source and target embeddings are one tensor
    tied_output: bool = False  # the output matrix is the target embedding
    residual: bool = False  # from the third layer on a layer adds its input (Wu et al. 2016, eq. 6): S7 of SHARP
    unk_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    pad_id: int = 3

    def check(self) -> None:
        """Raise ModelError for a width that two directions cannot share."""
        self.need("hidden_dim", self.hidden_dim % 2 == 0, "even: each direction of the encoder has half of it")

    def tensor_shapes(self) -> Shapes:
        """Every tensor by name."""
        shapes, dim, width = embeddings(self), self.hidden_dim, self.embedding_dim
        for layer in range(self.layers):
            for direction in ("forwards", "backwards"):
                shapes |= cell(f"encoder.{layer}.{direction}", GATES, dim if layer else width, dim // 2)
        for layer in range(self.layers):
            shapes |= cell(f"decoder.layers.{layer}", GATES, dim if layer else width + dim, dim)
        return shapes | {"decoder.key_weight": (dim, dim), "decoder.readout_weight": (dim, 2 * dim)} | output(self)

    @property
    def state_dim(self) -> int:
        """Width of a row's state: the hidden vector that is fed back, then each layer's output and cell."""
        return (1 + 2 * self.layers) * self.hidden_dim

    @property
    def footprint(self) -> Footprint:
        """Memory of rows and source positions in float32."""
        dim = self.hidden_dim
        step = max(self.embedding_dim, dim) + 8 * dim + 4 * dim  # input; both products; the readout's three
        encoding = self.embedding_dim + dim + 2 * dim  # a layer's input, output and one direction's gates
        return Footprint(row=4 * (2 * self.state_dim + step), position=4 * (2 * dim + encoding))
