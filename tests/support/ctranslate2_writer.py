"""model.bin of CTranslate2 in its fifth version, as its releases 2.12 to 2.24 wrote it, of a folder of today's."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np

from sharpbeam.convert.formats.ctranslate2 import read_model_file

TYPES = ("float32", "int8", "int16", "int32", "float16")
ROOT = ("num_heads", "pre_norm", "activation", "alignment_layer", "alignment_heads", "embeddings_merge")


def write_model(path: Path, kind: str, revision: int, variables: dict[str, np.ndarray]) -> None:
    def text(word: str) -> bytes:
        return struct.pack("<H", len(word.encode()) + 1) + word.encode() + b"\0"

    parts = [struct.pack("<I", 5), text(kind), struct.pack("<II", revision, len(variables))]
    for name, value in sorted(variables.items()):
        array = np.asarray(value)
        parts += [text(name), struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)]
        parts += [struct.pack("<BI", TYPES.index(array.dtype.name), array.nbytes), array.tobytes()]
    path.write_bytes(b"".join(parts) + struct.pack("<I", 0))


def as_version_5(folder: Path, to: Path, kind: str = "TransformerSpec", revision: int = 4, **changes) -> Path:
    """`folder` without its config.json, with what stood elsewhere then; `changes` of None leave a variable out."""
    found = dict(read_model_file(folder / "model.bin").variables)
    facts = json.loads((folder / "config.json").read_text())
    for name in ROOT:
        of_sides = [found.pop(f"{side}/{name}", None) for side in ("encoder", "decoder")]
        found[name] = next(value for value in of_sides if value is not None)
    if revision < 4:
        found["encoder/embeddings/weight"] = found.pop("encoder/embeddings_0/weight")
    for name in ("bos", "eos", "unk"):
        found[f"{name}_token"] = np.frombuffer(facts[f"{name}_token"].encode(), np.int8)
    found |= {f"with_source_{name}": np.int8(facts[f"add_source_{name}"]) for name in ("bos", "eos")}
    found["with_target_bos"] = np.int8(facts["decoder_start_token"] == facts["bos_token"])
    found |= {name: np.int8(0) for name in ("user_decoder_start_tokens", "with_relative_position")}
    found |= {"layernorm_embedding": np.int8(0)} | changes
    to.mkdir()
    write_model(to / "model.bin", kind, revision, {name: value for name, value in found.items() if value is not None})
    words = json.loads((folder / "shared_vocabulary.json").read_text())
    (to / "shared_vocabulary.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    for path in folder.glob("*.spm"):
        (to / path.name).write_bytes(path.read_bytes())
    return to
