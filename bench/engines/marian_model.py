"""A transformer of ours as a model of Marian, so that both engines decode with the same weights.

Marian's decoder starts from a vector of zeros where ours starts from the word bos, so the two say different things: for
timings only. Nor can it be told a least length, so the bias of eos keeps it from ending before the greatest.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, cast

import numpy as np
import yaml
from numpy.typing import NDArray

from bench.harness.cache import model_name, place, stamp
from sharpbeam.convert.firefox import marian_options
from sharpbeam.convert.readers.marian import NAMES
from sharpbeam.convert.readers.transformer import names_of
from sharpbeam.decoding.loading import load_model
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.options.decode import MachineOptions
from sharpbeam.storage.model_folder import read_config, read_tensors
from sharpbeam.text.vocabulary import read_vocabularies
from sharpbeam.types import Floats

Array = NDArray[Any]
NEVER = -1e4  # the bias of a word that is not to be said
VOCABULARY = "vocabulary.yml"
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu_sigmoid": "gelu"}


def home(folder: Path) -> Path:
    """Where the copies of the model in `folder` are kept, one for each type of products."""
    return place(
        "marian",
        model_name(folder),
        stamp(folder, code=("bench/engines/marian_model.py", "src/sharpbeam/convert/firefox.py")),
    )


def write(folder: Path, to: Path, gemm_type: str) -> Path:
    """The model in `folder` as TO/model.npz, and where `gemm_type` is not float32 as TO/GEMM_TYPE.bin; its path."""
    import _pymarian

    plain = to / "model.npz"
    if not plain.is_file():
        to.mkdir(parents=True, exist_ok=True)
        source, _ = read_vocabularies(folder)
        (to / VOCABULARY).write_text("".join(f'"{source.piece(i)}": {i}\n' for i in range(len(source))))
        np.savez(plain, **cast("Any", arrays(folder)))
    if gemm_type == "float32":
        return plain
    packed = to / f"{gemm_type}.bin"
    if not packed.is_file():
        made = _pymarian.main(["convert", "-f", str(plain), "-t", str(packed), "--gemm-type", gemm_type])
        assert made == 0, f"marian convert --gemm-type {gemm_type} ended with {made}"
    return packed


def write_lex(folder: Path, path: Path) -> tuple[int, int]:
    """Our shortlist in the form of Marian's: how many words are in every set, and how many translations each source
    word has at most. Marian's every set is of the first words, as many as ours has.
    """
    parts = load_model(folder, MachineOptions())
    shortlist = parts.artifacts.read("shortlist")
    most = int(np.diff(shortlist.start).max())
    with path.open("w") as file:
        for word in range(len(parts.source)):
            for rank, token in enumerate(shortlist.token[shortlist.start[word] : shortlist.start[word + 1]]):
                file.write(f"{parts.target.piece(int(token))} {parts.source.piece(word)} {1 / (rank + 2)}\n")
    return len(shortlist.always), most


def arrays(folder: Path) -> dict[str, Array]:
    """The arrays of Marian's model.npz for the model in `folder`; eos is never produced."""
    config = read_config(folder)
    assert isinstance(config, TransformerConfig) and not config.ssru_projection
    assert config.decoder_kind == "attention" or config.norm == "post"
    assert config.shared_embedding and config.tied_output and not config.gated_ffn and not config.embedding_norm
    text = yaml.safe_dump(_options(config)) + "\0"
    weights: dict[str, Array] = dict(_weights(config, read_tensors(folder, config)))
    return weights | {"special:model.yml": np.frombuffer(text.encode(), np.int8)}


def binary(arrays: dict[str, Array], rounded: bool) -> bytes:
    """The same as a binary file of Marian; `rounded`, its matrices are int8 as `--gemm-type intgemm8` makes them."""
    bodies, kinds = [], []
    for name, array in arrays.items():
        if rounded and array.dtype.kind == "f" and min(array.shape) > 1:
            scale = np.float32(127 / np.abs(array).max())
            turned = array if "Wemb" in name else array.T
            bodies.append(np.rint(turned * scale).astype(np.int8).tobytes() + scale.tobytes())
            kinds.append(0x10001)
        else:
            bodies.append(array.tobytes())
            kinds.append(0x404 if array.dtype.kind == "f" else 0x101)
    names = [name.encode() + b"\0" for name in arrays]
    rows = zip(names, kinds, arrays.values(), bodies, strict=True)
    headers = b"".join(struct.pack("<QQQQ", len(name), kind, array.ndim, len(body)) for name, kind, array, body in rows)
    shapes = b"".join(struct.pack(f"<{array.ndim}i", *array.shape) for array in arrays.values())
    head = struct.pack("<QQ", 1, len(names)) + headers + b"".join(names) + shapes
    gap = -(len(head) + 8) % 256
    return head + struct.pack("<Q", gap) + bytes(gap) + b"".join(bodies)


def _options(c: TransformerConfig) -> dict[str, Any]:
    """The options that Marian keeps in a model: those that describe the network."""
    before = {"transformer-preprocess": "n", "transformer-postprocess": "a", "transformer-postprocess-top": "n"}
    version = {"version": "v1.12.0", "transformer-ffn-activation": _ACTIVATIONS[c.activation]}
    return marian_options(c, c.target_vocab_size) | version | (before if c.norm == "pre" else {})


def _weights(c: TransformerConfig, tensors: Any) -> dict[str, Floats]:
    """Marian's names; matrices are [in, out] there, vectors rows."""
    bias = np.array(tensors["output_bias"])
    bias[c.eos_id] = NEVER
    arrays = {"Wemb": tensors["target_embedding"], "decoder_ff_logit_out_b": bias[None]}
    for ours in [name for name in c.tensor_shapes() if name not in ("target_embedding", "output_bias")]:
        names = names_of(ours, NAMES)
        parts = np.split(tensors[ours], len(names))
        if ours.endswith("ssru.cell.bias"):  # of the forget gate alone
            names, parts = [names[1].replace("_Wf", "_bf")], parts[1:]
        for name, part in zip(names, parts, strict=True):
            suffix = "_pre" if c.norm == "pre" and "_ln_" in name else ""
            arrays[name + suffix] = np.ascontiguousarray(part.T) if part.ndim == 2 else part[None]
    return arrays
