"""Older models of CTranslate2, whose variables are put where its newest specification has them.

As CTranslate2 does when it loads them: `SequenceToSequenceModel::initialize` for what config.json has since version 6
of the file, `TransformerModel::initialize` and `build_embeddings_scale` for what revisions 3 and 5 of the
specification moved.
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
_MOVED = {
    "num_heads": _SIDES,
    "pre_norm": _SIDES,
    "activation": _SIDES,
    "embeddings_merge": ("encoder",),
    "alignment_layer": ("decoder",),
    "alignment_heads": ("decoder",),
}
_SAID_TWICE = ("with_relative_position", "layernorm_embedding")  # by the variables that are there for it
_HEADS = {"TransformerBig": 16}  # before revision 3 the kind says it; of others 8


def renewed(path: Path, file: ModelFile, config: dict[str, Any]) -> tuple[ModelFile, dict[str, Any]]:
    """`file`, and the facts of its config.json, as the newest CTranslate2 would have written them.

    Raises ModelError for revision 1, which has other names, and for facts in the file `path` that are none.
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
        _move(variables)
    return replace(file, variables=variables), config


def _config(path: Path, variables: dict[str, Any]) -> dict[str, Any]:
    """Takes out of `variables` what config.json has by now."""

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


def _move(variables: dict[str, Any]) -> None:
    """Values at the root that belong to the sides."""
    for name, sides in _MOVED.items():
        if name in variables:
            value = variables.pop(name)
            for side in sides:
                variables.setdefault(f"{side}/{name}", value)
    for name in _SAID_TWICE:
        variables.pop(name, None)
    for side in _SIDES:
        for embeddings in ("embeddings", "embeddings_0"):
            scaled = variables.pop(f"{side}/{embeddings}/multiply_by_sqrt_depth", None)
            if scaled is not None and embeddings == "embeddings":
                variables.setdefault(f"{side}/scale_embeddings", scaled)
