"""The facts of an LSTM language model (L2S-14; Zaremba et al. 2014): words, layers of LSTMs, words."""

from __future__ import annotations

from dataclasses import dataclass

from sharpbeam.models.config import check_sizes, check_special_ids, check_tied, need
from sharpbeam.types import Footprint


@dataclass(frozen=True)
class LstmLmConfig:
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

    def __post_init__(self) -> None:
        check_sizes(self)
        check_tied(self)
        check_special_ids(self, self.vocab_size, "the vocabulary")
        need(self.bos_id != self.eos_id, f"bos_id and eos_id are both {self.bos_id}; they must differ.")

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
