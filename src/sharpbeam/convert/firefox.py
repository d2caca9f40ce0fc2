"""A model folder as Firefox has its models, for Bergamot and Marian: int8 weights, vocabulary, shortlist, options.

Bergamot quantizes the input of each matmul by a fixed scale, NAME_QuantMultA, and clips what is above. As Marian's
script does, it is 127 over the mean plus 1.1 standard deviations of the largest value of each sentence translated.
Pre-norm is refused: Marian's own program decodes such a file as Sharpbeam does, but Bergamot 0.4.9 other texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from safetensors.numpy import load_file

from sharpbeam.api.translator import Translator
from sharpbeam.convert.formats.marian import INPUT_SCALE, write_marian_file
from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.convert.formats.weights import Tensor, values
from sharpbeam.convert.readers.marian import NAMES, OUTPUT, SEARCH
from sharpbeam.convert.readers.transformer import names_of
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.sample import sample_of
from sharpbeam.errors import ModelError, OutputError, needs_extra
from sharpbeam.models.config import SCALE
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.options.decode import MachineOptions
from sharpbeam.storage.atomic import replacing_folder
from sharpbeam.storage.marian_shortlist import write_marian_shortlist
from sharpbeam.storage.model_folder import WEIGHTS
from sharpbeam.storage.tensors import Int8Matrix
from sharpbeam.types import Floats

MODEL, VOCABULARY, SHORTLIST = "model.intgemm.alphas.bin", "vocab.spm", "lex.50.50.s2t.bin"
MEASURED = 2000  # sentences: a few hundred would do
_ONLY = {  # facts that have one value in a model of Firefox
    "norm": "post", "encoder_final_norm": False, "decoder_final_norm": False,
    "positions": "sinusoidal-t2t", "position_offset": 0, "norm_epsilon": 1e-6, "norm_kind": "layer", "head_dim": 0,
    "embedding_norm": False, "scaled_embedding": True, "scaled_attention": True, "shared_embedding": True,
    "tied_output": True, "attention_bias": True, "ffn_bias": True, "gated_ffn": False, "experts": 0, "languages": {},
    "source_begin": (), "source_eos": True, "target_begin": (),
}  # fmt: skip
_MULTIPLES = {"hidden_dim": 64, "encoder_ffn_dim": 64, "target_vocab_size": 8}  # which Bergamot's matmuls need


def write_firefox(model: str | Path, output: Path, sources: Sequence[str] = ()) -> str:
    """Write the transformer `model` into the new folder `output`; returns what it holds, human-readable.

    Inputs are measured on the first MEASURED `sources`, by default the package's sentences; that takes seconds, and
    PyTorch. An int8 matrix with one scale stays as it is; others are quantized by their largest values.

    Raises ModelError for a fact or a weight that Marian cannot express, by name, and OutputError if `output` is there.
    """
    if output.exists():
        raise OutputError(f"{output} is there already; give another name.")
    translator = Translator(model, machine=MachineOptions(threads=1))
    loaded = translator.loaded
    config, spm, rows = _checked(loaded)
    arrays = _arrays(config, _stored(loaded.folder), rows)
    arrays |= _input_scales(translator, config, sources[:MEASURED] or sample_of(loaded))
    options: dict[str, Any] = {"relative-paths": True, "models": [MODEL], "vocabs": [VOCABULARY] * 2}
    search = {theirs: getattr(loaded.options.search, ours) for theirs, ours in SEARCH.items()}
    options |= {theirs: value for theirs, value in search.items() if value is not None}
    options |= {"word-penalty": 0, "gemm-precision": "int8shiftAlphaAll", "mini-batch": 64, "workspace": 128}
    with replacing_folder(output) as folder:
        write_marian_file(folder / MODEL, arrays, yaml.safe_dump(marian_options(config, rows)).encode() + b"\0")
        (folder / VOCABULARY).write_bytes(spm)
        if loaded.artifacts.has("shortlist"):
            write_marian_shortlist(folder / SHORTLIST, loaded.artifacts.read("shortlist"), rows, config.eos_id)
            options["shortlist"] = [SHORTLIST, False]
        (folder / "config.yml").write_text(yaml.safe_dump(options, sort_keys=False), encoding="utf-8")
    return f"{rows} pieces, {len(arrays)} arrays, with{'' if 'shortlist' in options else 'out a'} shortlist"


def check_facts(config: Any, pieces: int) -> None:
    """Raise ModelError, by name, for a fact of a model with so many `pieces` that a model of Firefox cannot have."""
    config.need("hidden_dim", isinstance(config, TransformerConfig), "that of a transformer in a model of Firefox")
    facts = _ONLY | {"decoder_heads": config.encoder_heads, "decoder_ffn_dim": config.encoder_ffn_dim}
    facts["target_vocab_size"] = pieces + (config.bos_id == pieces)  # one more: the token that the decoder starts from
    for name, value in facts.items():
        config.need(name, getattr(config, name) == value, f"{value!r} in a model of Firefox")
    config.need("suppressed_ids", {*config.suppressed_ids} <= {config.unk_id}, "unk at most in a model of Firefox")
    config.need("activation", config.activation in ("relu", "swish"), "relu or swish in a model of Firefox")
    for name, number in _MULTIPLES.items():
        size = pieces if name == "target_vocab_size" else getattr(config, name)
        config.need(name, size % number == 0, f"a multiple of {number} in a model of Firefox")


def _checked(loaded: LoadedModel) -> tuple[TransformerConfig, bytes, int]:
    """The config, the SentencePiece model and the number of its pieces; ModelError for what Marian cannot express."""
    config: Any = loaded.config
    if loaded.source is not loaded.target or not (path := loaded.folder / "source.spm").is_file():
        raise ModelError(f"{loaded.folder} has no SentencePiece model for both sides; Firefox's models have one.")
    spm, pieces = read_spm(path)
    check_facts(config, len(pieces))
    if loaded.source.pieces(range(len(pieces))) != tuple(pieces):
        raise ModelError(f"{path} numbers its pieces unlike the model; in a model of Firefox both are the same.")
    return config, spm, len(pieces)


def marian_options(config: TransformerConfig, rows: int) -> dict[str, Any]:
    """The options of Marian that stand for the config."""
    ssru = config.decoder_kind == "ssru"
    return {
        "type": "transformer", "dim-emb": config.hidden_dim, "dim-vocabs": [rows, rows], "tied-embeddings-all": True,
        "enc-depth": config.encoder_layers, "dec-depth": config.decoder_layers,
        "transformer-heads": config.encoder_heads, "transformer-dim-ffn": config.encoder_ffn_dim,
        "transformer-ffn-depth": 2, "transformer-ffn-activation": config.activation,
        "transformer-preprocess": "", "transformer-postprocess": "dan", "transformer-postprocess-emb": "d",
        "transformer-postprocess-top": "", "transformer-rnn-projection": config.ssru_projection,
        "transformer-decoder-autoreg": "rnn" if ssru else "self-attention", "dec-cell": "ssru" if ssru else "gru",
    }  # fmt: skip


def _stored(folder: Path) -> dict[str, Tensor]:
    """The weights of a model folder, those of int8 as they are."""
    arrays = load_file(folder / WEIGHTS)
    return {
        name: Int8Matrix(array, arrays[name + SCALE][:, None]) if array.dtype == np.int8 else array.astype(np.float32)
        for name, array in arrays.items()
        if not name.endswith(SCALE)
    }


def _arrays(config: TransformerConfig, tensors: dict[str, Tensor], rows: int) -> dict[str, Floats | Int8Matrix]:
    """The arrays of Marian with `rows` tokens; ModelError for a weight that has to be zero there."""
    embedding, bias = tensors.pop("target_embedding"), values(tensors.pop("output_bias"))
    zeros = {"the embedding of bos": values(embedding[config.bos_id : config.bos_id + 1])}
    arrays: dict[str, Floats | Int8Matrix] = {
        "Wemb": _with_one_scale(embedding[:rows]), f"{OUTPUT}_b": bias[None, :rows]
    }  # fmt: skip
    for ours, tensor in tensors.items():
        names = names_of(ours, NAMES)
        size = tensor.shape[0] // len(names)
        parts = [tensor[first : first + size] for first in range(0, tensor.shape[0], size)]
        if ours.endswith("ssru.cell.bias"):
            zeros[f"the first half of {ours}"] = values(parts.pop(0))
            names = [names[1].replace("_Wf", "_bf")]
        for name, part in zip(names, parts, strict=True):
            arrays[name] = _with_one_scale(part) if len(part.shape) == 2 else values(part)[None]
    for name, part in zeros.items():
        if part.any():
            raise ModelError(f"{name} is not zero, as it is in Marian; train the model with train.exportable = true.")
    return arrays


def _with_one_scale(matrix: Tensor) -> Int8Matrix:
    """The matrix itself if it is of int8 with one scale, or the nearest such matrix."""
    if isinstance(matrix, Int8Matrix) and (matrix.scale == matrix.scale[0]).all():
        return Int8Matrix(matrix.integers, matrix.scale[:1])
    row = Int8Matrix.quantized(values(matrix).reshape(1, -1))
    return Int8Matrix(row.integers.reshape(matrix.shape), row.scale)


def _input_scales(translator: Translator, config: Any, sources: Sequence[str]) -> dict[str, Floats]:
    """The scale of the input of each matmul by Marian's names; the output layer, a part of Wemb, has no name there."""
    with needs_extra("writing a model of Firefox", "train"):
        import torch

        from sharpbeam.models.transformer.module import TransformerModule
    loaded, largest = translator.loaded, dict[tuple[str, ...], list[float]]()
    module = TransformerModule(config).eval()
    module.load_state_dict({name: torch.from_numpy(values(one)) for name, one in _stored(loaded.folder).items()})

    def note(names: Sequence[str], inputs: Any) -> None:
        largest.setdefault(tuple(names), []).append(float(inputs.abs().max()))

    for layer, part in module.named_modules():
        if isinstance(part, torch.nn.Linear):
            own = [name + INPUT_SCALE for name in names_of(f"{layer}.weight", NAMES)]
            part.register_forward_pre_hook(lambda _, inputs, own=own: note(own, inputs[0]))
    with torch.no_grad():
        for answer in translator.translate(sources, raw=True):
            source = [*loaded.source.encode(answer.source), config.eos_id]
            target = [config.bos_id, *loaded.target.encode(answer.text)]
            hidden = module(torch.tensor([source]), None, torch.tensor([target]))
            note([f"none{INPUT_SCALE}", f"Wemb{INPUT_SCALE}"], hidden)
    tops = {names: max(float(np.mean(each) + 1.1 * np.std(each)), 1e-6) for names, each in largest.items()}
    return {name: np.full((1, 1), 127 / top, np.float32) for names, top in tops.items() for name in names}
