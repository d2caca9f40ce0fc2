"""The facts of an LSTM language model (L2S-14; Zaremba et al. 2014): words, layers of LSTMs, words."""

from __future__ import annotations

from dataclasses import dataclass

from sharpbeam.models.config import ModelConfig, Shapes, output
from sharpbeam.types import Footprint


@dataclass(frozen=True)
class LstmLmConfig(ModelConfig):
    """Sizes of an LSTM language model; saved in ``config.json`` next to the weights."""

    vocab_size: int
    embedding_dim: int = 200  # E
    hidden_dim: int = 200  # D, of every layer; the output layer sees the uppermost one
    layers: int = 2
    tied_output: bool = False  # the output matrix is the embedding
    unk_id: int = 0
    bos_id: int = 1  # fed to a model, it stands for no word at all: the model continues the text so far
    eos_id: int = 2  # stands between sentences, and before the first one
    pad_id: int = 3

    def check(self) -> None:
        """A text has to tell its begin from its end."""
        self.need("eos_id", self.bos_id != self.eos_id, f"another one than bos_id, {self.bos_id}")

    def tensor_shapes(self) -> Shapes:
        """Every tensor by name; the layers' as in PyTorch, gates in the order i, f, g, o."""
        gates = 4 * self.hidden_dim
        shapes: Shapes = {"embedding": (self.vocab_size, self.embedding_dim)}
        for layer in range(self.layers):
            shapes |= {
                f"lstm.weight_ih_l{layer}": (gates, self.hidden_dim if layer else self.embedding_dim),
                f"lstm.weight_hh_l{layer}": (gates, self.hidden_dim),
                f"lstm.bias_ih_l{layer}": (gates,),
                f"lstm.bias_hh_l{layer}": (gates,),
            }
        return shapes | output(self)

    @property
    def source_vocab_size(self) -> int:
        """Words that a prompt may have: all of them."""
        return self.vocab_size

    @property
    def target_vocab_size(self) -> int:
        """Words that may follow: all of them."""
        return self.vocab_size

    @property
    def footprint(self) -> Footprint:
        """Memory of rows in float32; a prompt is read and forgotten."""
        state = 2 * self.layers * self.hidden_dim
        step = self.embedding_dim + 8 * self.hidden_dim + self.hidden_dim  # input, both layers' gates, hidden vector
        return Footprint(row=4 * (2 * state + step), position=0)
