"""Names and shapes of an LSTM language model's tensors: one list for the PyTorch module, the native twin, the file."""

from __future__ import annotations

from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.models.tensors import Shape


def tensor_shapes(config: LstmLmConfig) -> dict[str, Shape]:
    """Every tensor of a model of `config`, by name; the layers' as in PyTorch, gates in the order i, f, g, o."""
    c = config
    gates = 4 * c.hidden_dim
    shapes: dict[str, Shape] = {"embedding": (c.vocab_size, c.embedding_dim)}
    for layer in range(c.layers):
        shapes |= {
            f"lstm.weight_ih_l{layer}": (gates, c.hidden_dim if layer else c.embedding_dim),
            f"lstm.weight_hh_l{layer}": (gates, c.hidden_dim),
            f"lstm.bias_ih_l{layer}": (gates,),
            f"lstm.bias_hh_l{layer}": (gates,),
        }
    if not c.tied_output:
        shapes["output_weight"] = (c.vocab_size, c.hidden_dim)
    shapes["output_bias"] = (c.vocab_size,)
    return shapes
