"""What all models of Marian have: embeddings and output layer, and vocabularies beside the model (.yml or .spm)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from quickbeam.convert.spm import read_spm
from quickbeam.convert.weights import Weights
from quickbeam.errors import ModelError
from quickbeam.types import Floats


def read_embeddings(weights: Weights, output: str) -> tuple[dict[str, Any], dict[str, Floats]]:
    """The embeddings and the output layer, whose weights are called `output`_W and _b; tied where it has no matrix.

    Returns what a config says of them, and the tensors.
    """
    names = ["Wemb"] if "Wemb" in weights else ["encoder_Wemb", "decoder_Wemb"]
    shapes = [weights.matrix_shape(name) for name in names]
    size, dim = shapes[-1]
    tensors = {"target_embedding": weights.take(names[-1], size, dim)}
    if len(names) == 2:
        tensors["source_embedding"] = weights.take(names[0], *shapes[0])
    if f"{output}_W" in weights:
        tensors["output_weight"] = np.ascontiguousarray(weights.take(f"{output}_W", dim, size).T)
    elif f"{output}_Wt" in weights:
        tensors["output_weight"] = weights.take(f"{output}_Wt", size, dim)
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
    """The words of a .yml file, or the pieces of an .spm, by id, and the SentencePiece model."""
    if path.suffix in (".yml", ".yaml"):
        spm, words = None, _yaml_words(path)
    else:
        spm, pieces = read_spm(path)
        words = dict(enumerate(pieces))
    if sorted(words) != list(range(len(words))) or len(words) > size:
        raise ModelError(f"{path} must have the ids 0 to {size - 1}, each once, as the model's embedding has.")
    return [*(words[i] for i in range(len(words))), *(f"<unused {i}>" for i in range(len(words), size))], spm


def _yaml_words(path: Path) -> dict[int, str]:
    """Lines `word: id`, words plain or in quotes."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read the vocabulary {path}: {error.strerror or error}.") from error
    words: dict[int, str] = {}
    for number, line in enumerate(raw.decode("utf-8", "replace").split("\n"), 1):
        if not line.strip():
            continue
        word, _, token = line.rpartition(":")
        word = word.strip()
        if word.startswith('"') and word.endswith('"') and len(word) > 1:
            word = re.sub(r"\\(.)", r"\1", word[1:-1])
        elif word.startswith("'") and word.endswith("'") and len(word) > 1:
            word = word[1:-1].replace("''", "'")
        if not re.fullmatch(r"\s*[0-9]{1,9}\s*", token, re.ASCII) or int(token) in words:
            raise ModelError(f"{path}, line {number}: it must be a word, a colon and an id of its own.")
        words[int(token)] = word
    return words
