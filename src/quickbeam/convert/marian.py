"""Models of Marian: model.npz with its vocabularies (.yml or .spm) -> ours; transformers, and students with an SSRU.

Names and meanings are those of Marian's src/models/transformer.h: matrices are [in, out] and are turned here, positions
are sinusoids of tensor2tensor, norms have an epsilon of 1e-6, and the decoder starts from a zero vector, for which a
word with a zero embedding is appended.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import sentencepiece

from quickbeam.convert.converted import Converted, check_same_words, id_of, with_start
from quickbeam.convert.facts import Facts
from quickbeam.convert.npz_file import read_npz
from quickbeam.convert.weights import Weights
from quickbeam.errors import ModelError
from quickbeam.models.transformer.config import TransformerConfig
from quickbeam.text.pieces import PieceVocabulary
from quickbeam.types import Floats

_CONFIG = "special:model.yml"
_ACTIVATIONS = {"relu": "relu", "swish": "swish", "gelu": "gelu_sigmoid"}


def read_marian(path: Path, source: Path | None, target: Path | None) -> Converted:
    """The model in `path` (.npz); vocabularies default to the only .yml or .spm file beside it. Raises ModelError."""
    arrays = read_npz(path)
    if _CONFIG not in arrays:
        raise ModelError(f"{path} lacks {_CONFIG}; it is no model of Marian.")
    facts = Facts(path, _simple_yaml(arrays.pop(_CONFIG).tobytes()))
    arrays = {name: array for name, array in arrays.items() if not name.startswith(("special:", "decoder_c_tt"))}
    facts.require("type", ["transformer"])
    facts.require("transformer-ffn-depth", [2])
    for name in ("transformer-no-projection", "layer-normalization", "transformer-train-positions"):
        facts.require(name, [False])
    weights = Weights(path, {name: _flat(name, array) for name, array in arrays.items()})
    model = _Model(facts, weights)
    sizes, tensors = model.read()
    beside = [
        one for ending in ("*.yml", "*.spm") for one in sorted(path.parent.glob(ending)) if "decoder" not in one.name
    ]
    if source is None and len(beside) != 1:
        raise ModelError(
            f"{path.parent} has {len(beside)} vocabularies; say which: --source-spm FILE, --target-spm FILE."
        )
    source = source or beside[0]
    words = [
        _vocabulary(one, sizes[f"{side}_vocab_size"])
        for side, one in (("source", source), ("target", target or source))
    ]
    return _with_words(path, sizes, tensors, words)


def _with_words(
    path: Path, sizes: dict[str, Any], tensors: dict[str, Floats], words: list[tuple[list[str], bytes | None]]
) -> Converted:
    """The model with its words, and with one more on each side, from which the decoder starts."""
    (source, source_spm), (target, target_spm) = words
    ids: dict[str, Any] = {"unk_id": id_of(path, target, "unk", "<unk>"), "eos_id": id_of(path, target, "eos", "</s>")}
    check_same_words(path, source, target, ids)
    tensors, source, target, start = with_start(path, tensors, source, target)
    ids |= {"bos_id": start, "pad_id": start}
    config = TransformerConfig(**sizes | {"source_vocab_size": len(source), "target_vocab_size": len(target)}, **ids)
    made = [PieceVocabulary(one, ids, (), spm) for one, spm in ((source, source_spm), (target, target_spm))]
    return Converted("a Marian model", config, tensors, made[0], made[1])


class _Model:
    """The options and the weights."""

    def __init__(self, facts: Facts, weights: Weights) -> None:
        self._facts, self._weights = facts, weights

    def read(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """The facts of TransformerConfig but for words, and the tensors."""
        facts, w = self._facts, self._weights
        before, behind, top = (
            facts.text(f"transformer-{name}").replace("d", "")
            for name in ("preprocess", "postprocess", "postprocess-top")
        )
        if (before, behind, top) not in (("", "an", ""), ("n", "a", "n")):
            raise facts.refusal("transformer-postprocess", "'dan', or 'da' with preprocess 'n' and postprocess-top 'n'")
        look_back = facts.text("transformer-decoder-autoreg") or "self-attention"
        if look_back not in ("self-attention", "rnn") or (look_back == "rnn" and facts.text("dec-cell") != "ssru"):
            raise facts.refusal("transformer-decoder-autoreg", "self-attention, or rnn with dec-cell ssru")
        names = ["Wemb"] if "Wemb" in w else ["encoder_Wemb", "decoder_Wemb"]
        shapes = [w.matrix_shape(name) for name in names]
        dim = shapes[-1][-1]
        tensors = {"target_embedding": w.take(names[-1], *shapes[-1])}
        if len(names) == 2:
            tensors["source_embedding"] = w.take(names[0], *shapes[0])
        tied = "decoder_ff_logit_out_W" not in w
        target = shapes[-1][0]
        if not tied:
            tensors["output_weight"] = np.ascontiguousarray(w.take("decoder_ff_logit_out_W", dim, target).T)
        bias = "decoder_ff_logit_out_b"
        tensors["output_bias"] = w.take(bias, target) if bias in w else np.zeros(target, np.float32)
        sizes: dict[str, Any] = {
            "source_vocab_size": shapes[0][0],
            "target_vocab_size": target,
            "hidden_dim": dim,
            "encoder_layers": facts.integer("enc-depth"),
            "decoder_layers": facts.integer("dec-depth"),
            "encoder_heads": facts.integer("transformer-heads"),
            "decoder_heads": facts.integer("transformer-heads"),
            "norm": "pre" if before else "post",
            "encoder_final_norm": bool(top),
            "decoder_final_norm": bool(top),
            "embedding_norm": "n" in facts.text("transformer-postprocess-emb"),
            "norm_epsilon": 1e-6,
            "activation": facts.choice("transformer-ffn-activation", _ACTIVATIONS),
            "positions": "sinusoidal-t2t",
            "shared_embedding": len(names) == 1,
            "tied_output": tied,
            "decoder_kind": "attention" if look_back == "self-attention" else "ssru",
            "ssru_projection": look_back == "rnn" and facts.flag("transformer-rnn-projection"),
        }
        if "Wpos" in w:
            raise ModelError(f"{facts.path}: it has trained positions (Wpos), which are not read yet.")
        for side in ("encoder", "decoder"):
            for layer in range(sizes[f"{side}_layers"]):
                self._layer(side, layer, sizes, tensors)
            if top:
                self._norm(f"{side}_top", f"{side}_norm", dim, tensors)
            if sizes["embedding_norm"]:
                self._norm(f"{side}_emb", f"{'source' if side == 'encoder' else 'target'}_embedding_norm", dim, tensors)
        w.check_all_taken()
        return sizes, tensors

    def _layer(self, side: str, layer: int, sizes: dict[str, Any], tensors: dict[str, Floats]) -> None:
        theirs, ours, dim = f"{side}_l{layer + 1}", f"{side}.{layer}", sizes["hidden_dim"]
        if side == "decoder" and sizes["decoder_kind"] == "ssru":
            self._ssru(f"{theirs}_rnn", f"{ours}.ssru", dim, sizes["ssru_projection"], tensors)
        else:
            self._products(f"{theirs}_self", f"{ours}.attention.qkv", "qkv", dim, tensors)
            self._products(f"{theirs}_self", f"{ours}.attention.out", "o", dim, tensors)
            self._norm(f"{theirs}_self_Wo", f"{ours}.attention.norm", dim, tensors)
        if side == "decoder":
            for name, letters in (("query", "q"), ("key_value", "kv"), ("out", "o")):
                self._products(f"{theirs}_context", f"{ours}.cross.{name}", letters, dim, tensors)
            self._norm(f"{theirs}_context_Wo", f"{ours}.cross.norm", dim, tensors)
        _, width = self._weights.matrix_shape(f"{theirs}_ffn_W1")
        if sizes.setdefault(f"{side}_ffn_dim", width) != width:
            raise ModelError(f"{self._facts.path}: the layers of its {side} have different widths.")
        for name, number, shape in (("up", 1, (dim, width)), ("down", 2, (width, dim))):
            self._linear(f"{theirs}_ffn_W{number}", f"{theirs}_ffn_b{number}", f"{ours}.ffn.{name}", shape, tensors)
        self._norm(f"{theirs}_ffn_ffn", f"{ours}.ffn.norm", dim, tensors)

    def _ssru(self, theirs: str, ours: str, dim: int, projects: bool, tensors: dict[str, Floats]) -> None:
        w = self._weights
        matrices = [w.take(f"{theirs}_{name}", dim, dim).T for name in ("W", "Wf")]
        tensors[f"{ours}.cell.weight"] = np.ascontiguousarray(np.concatenate(matrices))
        tensors[f"{ours}.cell.bias"] = np.concatenate([np.zeros(dim, np.float32), w.take(f"{theirs}_bf", dim)])
        if projects:
            self._products(theirs, f"{ours}.out", "o", dim, tensors)
        self._norm(f"{theirs}_ffn", f"{ours}.norm", dim, tensors)

    def _products(self, theirs: str, ours: str, letters: str, dim: int, tensors: dict[str, Floats]) -> None:
        w = self._weights
        matrices = [w.take(f"{theirs}_W{letter}", dim, dim).T for letter in letters]
        tensors[f"{ours}.weight"] = np.ascontiguousarray(np.concatenate(matrices))
        tensors[f"{ours}.bias"] = np.concatenate([w.take(f"{theirs}_b{letter}", dim) for letter in letters])

    def _linear(self, weight: str, bias: str, ours: str, shape: tuple[int, int], tensors: dict[str, Floats]) -> None:
        tensors[f"{ours}.weight"] = np.ascontiguousarray(self._weights.take(weight, *shape).T)
        tensors[f"{ours}.bias"] = self._weights.take(bias, shape[1])

    def _norm(self, theirs: str, ours: str, dim: int, tensors: dict[str, Floats]) -> None:
        suffix = "_pre" if f"{theirs}_ln_scale_pre" in self._weights else ""
        tensors[f"{ours}.weight"] = self._weights.take(f"{theirs}_ln_scale{suffix}", dim)
        tensors[f"{ours}.bias"] = self._weights.take(f"{theirs}_ln_bias{suffix}", dim)


def _flat(name: str, array: Any) -> Any:
    """Marian writes vectors as one row."""
    vector = re.search(r"_b[a-z0-9]*$|_ln_(scale|bias)(_pre)?$|_out_b$", name)
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


def _vocabulary(path: Path, size: int) -> tuple[list[str], bytes | None]:
    """The words of a .yml file, or the pieces of an .spm, by id, and the SentencePiece model."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ModelError(f"cannot read the vocabulary {path}: {error.strerror or error}.") from error
    spm = None if path.suffix in (".yml", ".yaml") else raw
    if spm is not None:
        processor = sentencepiece.SentencePieceProcessor()
        try:
            processor.LoadFromSerializedProto(spm)
        except RuntimeError as error:
            raise ModelError(f"{path} is neither a .yml vocabulary nor a SentencePiece model.") from error
        words: dict[int, str] = {i: processor.IdToPiece(i) for i in range(processor.GetPieceSize())}
    else:
        words = _yaml_words(path, raw)
    if sorted(words) != list(range(len(words))) or len(words) > size:
        raise ModelError(f"{path} must have the ids 0 to {size - 1}, each once, as the model's embedding has.")
    return [*(words[i] for i in range(len(words))), *(f"<unused {i}>" for i in range(len(words), size))], spm


def _yaml_words(path: Path, raw: bytes) -> dict[int, str]:
    """Lines `word: id`, words plain or in quotes."""
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
        if not re.fullmatch(r"\s*\d{1,9}\s*", token) or int(token) in words:
            raise ModelError(f"{path}, line {number}: it must be a word, a colon and an id of its own.")
        words[int(token)] = word
    return words
