"""Older models of CTranslate2, whose variables are renamed to those of its newest specification.

As CTranslate2 does when it loads them: `SequenceToSequenceModel::initialize` for the facts that config.json has since
version 6 of the file, `TransformerModel::initialize` and `build_embeddings_scale` for the variables that revisions 3
and 5 of the specification moved.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy import array, int8

from sharpbeam.convert.formats.ctranslate2 import ModelFile
from sharpbeam.errors import ModelError

_WORDS = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_FLAGS = {"add_source_bos": "with_source_bos", "add_source_eos": "with_source_eos"}
_SIDES = ("encoder", "decoder")
_SCALED = "multiply_by_sqrt_depth"
_MOVED: dict[str, list[str]] = {  # without a new name: stated by other variables
    **{name: [f"{side}/{name}" for side in _SIDES] for name in ("num_heads", "pre_norm", "activation")},
    "embeddings_merge": ["encoder/embeddings_merge"],
    **{name: [f"decoder/{name}"] for name in ("alignment_layer", "alignment_heads")},
    **{f"{side}/embeddings/{_SCALED}": [f"{side}/scale_embeddings"] for side in _SIDES},
    **{f"{side}/embeddings_0/{_SCALED}": [] for side in _SIDES},
    "with_relative_position": [],
    "layernorm_embedding": [],
}
_HEADS = {"TransformerBig": 16}  # before revision 3, by the kind; others have 8


def renew(path: Path, file: ModelFile, config: dict[str, Any]) -> tuple[ModelFile, dict[str, Any]]:
    """`file`, and the facts of its config.json, as the newest CTranslate2 would have written them.

    Raises ModelError for revision 1, which has other names, and for facts in the file `path` that are not sound.
    """
    if file.revision < 2:
        raise ModelError(
            f"{path} is of revision {file.revision} of its kind; convert it again by CTranslate2 2 or newer."
        )
    variables = dict(file.variables)
    if file.version < 6:
        config = config | _config(path, variables)
    if file.revision < 3:
        variables.setdefault("num_heads", array(_HEADS.get(file.kind, 8), int8))
    if file.revision < 5:
        for name, places in _MOVED.items():
            value = variables.pop(name, None)
            variables |= {place: value for place in places if value is not None and place not in variables}
    return replace(file, variables=variables), config


def _config(path: Path, variables: dict[str, Any]) -> dict[str, Any]:
    """The facts that config.json has by now, which are removed from `variables`."""

    def flag(name: str, default: bool) -> bool:
        value = variables.pop(name, array(default))
        if value.size != 1:
            raise ModelError(f"{path}: {name} has shape {value.shape}; it must be one number.")
        return bool(value.reshape(-1)[0])

    facts: dict[str, Any] = {}
    for name, word in _WORDS.items():
        raw = variables.pop(name, None)
        try:
            facts[name] = word if raw is None else raw.tobytes().decode("utf-8")
        except UnicodeDecodeError as error:
            raise ModelError(f"{path}: {name} is no text ({error}); copy or convert it again.") from error
    facts |= {name: flag(theirs, False) for name, theirs in _FLAGS.items()}
    by_user, from_bos = flag("user_decoder_start_tokens", False), flag("with_target_bos", True)
    return facts | {"decoder_start_token": None if by_user else facts["bos_token" if from_bos else "eos_token"]}
