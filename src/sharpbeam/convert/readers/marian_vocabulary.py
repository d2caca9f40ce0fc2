"""The common parts of Marian's models: embeddings, an output layer and the tokens of a vocabulary (.yml or .spm)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.convert.formats.weights import Tensors, Weights
from sharpbeam.convert.formats.yaml import read_words
from sharpbeam.errors import ModelError


def read_embeddings(weights: Weights, output: str) -> tuple[dict[str, Any], Tensors]:
    """The embeddings and the output layer, whose weights are called `output`_W and _b; tied where it has no matrix.

    Returns their part of the config, and the tensors.
    """
    names = ["Wemb"] if "Wemb" in weights else ["encoder_Wemb", "decoder_Wemb"]
    shapes = [weights.matrix_shape(name) for name in names]
    size, dim = shapes[-1]
    tensors = Tensors(weights, transposed=True)
    tensors["target_embedding"] = weights.tensor(names[-1], size, dim)
    if len(names) == 2:
        tensors["source_embedding"] = weights.tensor(names[0], *shapes[0])
    if f"{output}_W" in weights:
        tensors.add_matrix("output_weight", f"{output}_W", size, dim)
    elif f"{output}_Wt" in weights:
        tensors["output_weight"] = weights.tensor(f"{output}_Wt", size, dim)
    bias = f"{output}_b"
    tensors["output_bias"] = weights.take(bias, size) if bias in weights else np.zeros(size, np.float32)
    facts = {
        "source_vocab_size": shapes[0][0],
        "target_vocab_size": size,
        "shared_embedding": len(names) == 1,
        "tied_output": "output_weight" not in tensors,
    }
    return facts, tensors


def read_vocabulary(path: Path, size: int) -> tuple[list[str], bytes | None]:
    """The words of a .yml file, or the pieces of an .spm, by id, and the SentencePiece model.

    Raises ModelError or InputError for a file that is none, or has more words than `size`, the model's embeddings.
    """
    spm: bytes | None = None
    if path.suffix in (".yml", ".yaml"):
        words = read_words(path)
    else:
        spm, words = read_spm(path)
    if len(words) > size:
        raise ModelError(f"{path} has {len(words)} words, but the model's embedding has {size}; give its vocabulary.")
    return [*words, *(f"<unused {i}>" for i in range(len(words), size))], spm
