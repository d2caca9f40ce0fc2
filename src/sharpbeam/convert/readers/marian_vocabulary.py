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
    """The embeddings and the output layer, whose weights are called `output`_W or _Wt, and _b; or tied.

    Returns their part of the config of a transformer, and the tensors.
    """
    tensors, target = Tensors(weights), ("Wemb", "decoder_Wemb")
    facts = tensors.add_embeddings(("Wemb", "encoder_Wemb"), target, (f"{output}_W", f"{output}_Wt", *target))
    bias, size = f"{output}_b", facts["target_vocab_size"]
    tensors["output_bias"] = weights.take(bias, size) if bias in weights else np.zeros(size, np.float32)
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
