"""Names and shapes of an LSTM language model's tensors."""

from __future__ import annotations

from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.models.tensors import Shapes, output


def tensor_shapes(config: LstmLmConfig) -> Shapes:
    """Every tensor of a model of `config`, by name; the layers' as in PyTorch, gates in the order i, f, g, o."""
    c, gates = config, 4 * config.hidden_dim
    shapes: Shapes = {"embedding": (c.vocab_size, c.embedding_dim)}
    for layer in range(c.layers):
        shapes |= {
            f"lstm.weight_ih_l{layer}": (gates, c.hidden_dim if layer else c.embedding_dim),
            f"lstm.weight_hh_l{layer}": (gates, c.hidden_dim),
            f"lstm.bias_ih_l{layer}": (gates,),
            f"lstm.bias_hh_l{layer}": (gates,),
        }
    return shapes | output(c)
