"""Models of Marian: model.npz or its binary form, with its vocabularies (.yml or .spm) -> ours.

The decoder starts from a zero vector, for which a word with a zero embedding is appended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sharpbeam.convert.converted import Converted, check_same_words, id_of, with_start
from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.marian import is_marian_file, read_marian_file
from sharpbeam.convert.formats.npz import read_npz
from sharpbeam.convert.formats.weights import Weights
from sharpbeam.convert.readers.marian_gru import marian_names, read_recurrent
from sharpbeam.convert.readers.marian_transformer import read_transformer
from sharpbeam.convert.readers.marian_vocabulary import find_vocabularies, read_vocabulary
from sharpbeam.errors import ModelError
from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.text.pieces import PieceVocabulary
from sharpbeam.types import Floats

_CONFIG = "special:model.yml"
_KINDS = {
    "transformer": (TransformerConfig, read_transformer),
    "s2s": (GruConfig, read_recurrent),
    "amun": (GruConfig, read_recurrent),
    "nematus": (GruConfig, read_recurrent),
}
_ABSENT = ("layer-normalization", "right-left")
_LISTS = "Its vocabularies are lists: text is words or pieces of them with spaces between."
_NORMS_IN_FRONT = (
    "Its norms stand in front (transformer-preprocess n): Marian's own decoder leaves keys and values of earlier words "
    "without their norm, unlike Marian's training and scorer, so it may say something else. Sharpbeam gives them their "
    "norm, as in training."
)


def read_marian(path: Path, source: Path | None, target: Path | None) -> Converted:
    """The model in `path`, .npz or Marian's binary form; vocabularies are `find_vocabularies`.

    Raises ModelError or InputError.
    """
    arrays = read_marian_file(path) if is_marian_file(path) else read_npz(path)
    if _CONFIG not in arrays:
        raise ModelError(f"{path} lacks {_CONFIG}; it is no model of Marian.")
    facts = Facts(path, _simple_yaml(arrays.pop(_CONFIG).tobytes()))
    arrays = marian_names({name: array for name, array in arrays.items() if not _is_other(name)})
    kind, read = facts.choice("type", _KINDS)
    for name in _ABSENT:
        facts.require(name, [False])
    weights = Weights(path, {name: _flat(name, array) for name, array in arrays.items()})
    sizes, tensors = read(facts, weights)
    weights.check_all_taken()
    files = find_vocabularies(path, source, target)
    words = [
        read_vocabulary(one, sizes[f"{side}_vocab_size"]) for side, one in zip(("source", "target"), files, strict=True)
    ]
    return _with_words(path, kind, sizes, tensors, words)


def _with_words(
    path: Path,
    kind: type[TransformerConfig | GruConfig],
    sizes: Mapping[str, Any],
    tensors: Mapping[str, Floats],
    words: list[tuple[list[str], bytes | None]],
) -> Converted:
    """The model with its words, and with one more on each side, from which the decoder starts."""
    (source, source_spm), (target, target_spm) = words
    ids: dict[str, Any] = {"unk_id": id_of(path, target, "unk", "<unk>"), "eos_id": id_of(path, target, "eos", "</s>")}
    check_same_words(path, source, target, ids)
    tensors, source, target, start = with_start(path, tensors, source, target)
    ids |= {"bos_id": start, "pad_id": start}
    config = kind(**{**sizes, "source_vocab_size": len(source), "target_vocab_size": len(target)}, **ids)
    made = [PieceVocabulary(one, ids, (), spm) for one, spm in ((source, source_spm), (target, target_spm))]
    in_front = isinstance(config, TransformerConfig) and config.norm == "pre" and config.decoder_kind == "attention"
    notes = [] if source_spm else [_LISTS]
    notes += [_NORMS_IN_FRONT] if in_front else []
    return Converted("a Marian model", config, tensors, made[0], made[1], tuple(notes))


def _is_other(name: str) -> bool:
    """Whether an array is no weight: options, and what Marian keeps for Nematus and Amun."""
    return name.startswith("special:") or name in ("decoder_c_tt", "uidx", "history_errs")


def _flat(name: str, array: Any) -> Any:
    """Marian writes vectors as one row."""
    vector = re.search(r"_b[a-z0-9]*$|_b_att$|_ln_(scale|bias)(_pre)?$", name)
    return array.reshape(-1) if vector and array.ndim == 2 and array.shape[0] == 1 else array


def _simple_yaml(raw: bytes) -> dict[str, Any]:
    """The lines `key: value` of Marian's options: numbers, booleans and plain texts; anything nested is left out."""
    found: dict[str, Any] = {}
    for line in raw.rstrip(b"\0").decode("utf-8", "replace").splitlines():
        key, colon, value = line.partition(":")
        value = value.strip().strip("\"'")
        if not colon or line.startswith((" ", "-", "#")):
            continue
        if value in ("true", "false"):
            found[key] = value == "true"
        elif re.fullmatch(r"-?\d{1,18}", value):
            found[key] = int(value)
        else:
            found[key] = value
    return found
