"""Files of Marian and Bergamot, written from the descriptions of their formats and apart from our readers."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from support.foreign import demo_sentences, train_pieces

DIM, FFN, WORDS = 16, 24, 120
OPTIONS = {
    "type": "transformer", "enc-depth": 2, "dec-depth": 2, "transformer-heads": 4, "transformer-ffn-depth": 2,
    "transformer-ffn-activation": "relu", "transformer-preprocess": '""', "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d", "transformer-postprocess-top": '""', "transformer-no-projection": "false",
    "transformer-decoder-autoreg": "self-attention", "transformer-guided-alignment-layer": "last", "dec-cell": "gru",
}  # fmt: skip
# Type of the numbers by their code: browsermt's codes, then Marian's.
QUANTIZED = {0x4101: np.int8, 0x4102: np.int16, 0x10001: np.int8, 0x10002: np.int16}


def quantize(array: Any, kind: int) -> tuple[Any, np.float32]:
    """Integers and their scale, as intgemm chooses it: of 8 bits by the largest value, of 16 bits always 1024."""
    integer = QUANTIZED[kind]
    scale = np.float32(127 / np.abs(array).max() if integer is np.int8 else 1024)
    return np.rint(array * scale).astype(integer), scale


def binary(arrays: Mapping[str, Any], kind: int | None = None, alphas: bool = False) -> bytes:
    """A binary model; matrices are quantized as type `kind`, if there is one, and have `alphas`."""
    entries: list[tuple[str, int, tuple[int, ...], bytes]] = []
    for name, array in arrays.items():
        if kind and array.dtype.kind == "f" and min(array.shape) > 1:
            integers, scale = quantize(array if "Wemb" in name else array.T, kind)
            entries.append((name, kind, array.shape, integers.tobytes() + scale.tobytes()))
            if alphas:
                entries.append((f"{name}_QuantMultA", 0x404, (1, 1), np.float32(12.5).tobytes()))
        else:
            entries.append((name, 0x404 if array.dtype.kind == "f" else 0x101, array.shape, array.tobytes()))
    entries = [(*entry[:3], entry[3] + bytes(-len(entry[3]) % 256)) for entry in entries]
    names = [name.encode() + b"\0" for name, *_ in entries]
    head = struct.pack("<QQ", 1, len(entries))
    for encoded, (_, number, shape, body) in zip(names, entries, strict=True):
        head += struct.pack("<QQQQ", len(encoded), number, len(shape), len(body))
    head += b"".join(names) + b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in entries)
    gap = -(len(head) + 8) % 256
    return head + struct.pack("<Q", gap) + bytes(gap) + b"".join(body for *_, body in entries)


def shortlist(frequent: int, lists: Sequence[Sequence[int]]) -> bytes:
    """A binary shortlist: the first `frequent` target ids, and a list for each source id."""
    ids = [token for one in lists for token in one]
    offsets = np.cumsum([0, *map(len, lists)])
    body = struct.pack("<4Q", frequent, 50, len(offsets), len(ids))
    return shortlist_of(body + offsets.astype("<u8").tobytes() + np.array(ids, "<u4").tobytes())


def shortlist_of(body: bytes) -> bytes:
    """Magic and checksum (Marian's hash of whole words of 8 bytes) before `body`."""
    seed = 0
    for (value,) in struct.iter_unpack("<Q", body[: len(body) // 8 * 8]):
        seed = (seed ^ (value + 0x9E3779B9 + (seed << 6) + (seed >> 2))) % 2**64
    return struct.pack("<QQ", 0xF11A48D5013417F5, seed) + body


def save(folder: Path, source_words: int | None = None, **changes: Any) -> Path:
    """A model in `folder`; `source_words` gives the source an embedding of its own, with so many words."""
    options = OPTIONS | {name.replace("_", "-"): value for name, value in changes.items()}
    draw = np.random.default_rng(2)
    arrays: dict[str, Any] = {}

    def put(name: str, *shape: int) -> None:
        arrays[name] = draw.normal(0, 0.3, shape).astype(np.float32) + ("scale" in name)

    if source_words:
        put("encoder_Wemb", source_words, DIM)
    put("decoder_Wemb" if source_words else "Wemb", WORDS, DIM)
    put("decoder_ff_logit_out_b", 1, WORDS)
    for side in ("encoder", "decoder"):
        for layer in ("l1", "l2"):
            blocks = ["self"] if side == "encoder" else ["self", "context"]
            if options["dec-cell"] == "ssru" and side == "decoder":
                blocks = ["context"]
                for name in ("W", "Wf"):
                    put(f"{side}_{layer}_rnn_{name}", DIM, DIM)
                put(f"{side}_{layer}_rnn_bf", 1, DIM)
            for block in blocks:
                for letter in "qkvo":
                    put(f"{side}_{layer}_{block}_W{letter}", DIM, DIM)
                    put(f"{side}_{layer}_{block}_b{letter}", 1, DIM)
            in_front = options["transformer-preprocess"] == "n"
            norms = [*(f"{block}_Wo" for block in blocks), "ffn_ffn"]
            if len(blocks) == 1 and side == "decoder":
                norms.append("rnn" if in_front else "rnn_ffn")
            for norm in norms:
                for part in ("scale", "bias"):
                    put(f"{side}_{layer}_{norm}_ln_{part}{'_pre' if in_front else ''}", 1, DIM)
            for number, shape in ((1, (DIM, FFN)), (2, (FFN, DIM))):
                put(f"{side}_{layer}_ffn_W{number}", *shape)
                put(f"{side}_{layer}_ffn_b{number}", 1, shape[1])
        if options["transformer-postprocess-top"] == "n":
            put(f"{side}_top_ln_scale", 1, DIM)
            put(f"{side}_top_ln_bias", 1, DIM)
    config = "".join(f"{key}: {value}\n" for key, value in options.items()) + "\0"
    arrays["special:model.yml"] = np.frombuffer(config.encode(), np.int8)
    folder.mkdir()
    np.savez(folder / "model.npz", **arrays)
    (folder / "vocab.spm").write_bytes(train_pieces(demo_sentences(), WORDS, unk_id=1, eos_id=0, bos_id=-1, pad_id=-1))
    return folder / "model.npz"
