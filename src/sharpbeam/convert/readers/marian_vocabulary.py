"""What all models of Marian have: embeddings and output layer, and vocabularies beside the model (.yml or .spm)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.convert.formats.weights import Weights
from sharpbeam.convert.formats.yaml import read_names, read_words
from sharpbeam.errors import ModelError, SharpbeamError
from sharpbeam.types import Floats


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


def find_vocabularies(model: Path, source: Path | None, target: Path | None) -> tuple[Path, Path]:
    """The files of both vocabularies: those that were given, the target's being the source's where only that was;
    else those that Marian itself has noted for its decoder, where they lie beside the model; else the only one there.

    Raises ModelError where there is not one, and InputError where what Marian has noted cannot be read.
    """
    if source is not None:
        return source, target or source
    noted = _noted(model) or [_only(model)]
    return noted[0], target or noted[-1]


def _noted(model: Path) -> list[Path]:
    """One or two vocabularies beside the model, by their names in the options that Marian keeps there; or none."""
    there = {one.name: one for one in model.parent.glob("*") if one.is_file()}
    for ending in ("decoder.yml", "yml"):
        options = there.get(f"{model.name}.{ending}")
        names = [Path(name).name for name in read_names(options, "vocabs")] if options else []
        if len(names) in (1, 2) and there.keys() >= set(names):
            return [there[name] for name in names]
    return []


def _only(model: Path) -> Path:
    """The only vocabulary beside the model. Of several files those that are no list of words do not count."""
    beside = [one for ending in ("*.yml", "*.spm") for one in sorted(model.parent.glob(ending))]
    found = [one for one in beside if ".npz." not in one.name and not one.name.startswith(f"{model.name}.")]
    if len(found) > 1:
        found = [one for one in found if one.suffix == ".spm" or _is_list(one)] or found
    if len(found) != 1:
        raise ModelError(
            f"{model.parent} has {len(found)} vocabularies{''.join(f', {one.name}' for one in found)}; say which: "
            "--source-spm FILE, --target-spm FILE."
        )
    return found[0]


def _is_list(path: Path) -> bool:
    try:
        return bool(read_words(path))
    except SharpbeamError:
        return False


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
