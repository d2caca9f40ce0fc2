"""Broken and hostile files for `quickbeam convert`: each must be refused with a clear error, or read, and nothing else.

A small model is written in every format that can be made here. Each case breaks one of its files: cut short, bytes
changed, numbers made huge, pieces moved, repeated or taken from another file; or it is made to harm: pickles that name
functions, archives that grow, headers that promise what is not there. The file is then read as a user would have it
read. Wrong is any other error than ours, a call of the system or of pickle, more than 4 GiB of memory, or 20 seconds.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pickle
import resource
import shutil
import signal
import struct
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from benchmarks import record
from quickbeam.convert.export import export_hugging_face
from quickbeam.convert.read import read_model
from quickbeam.errors import QuickbeamError
from quickbeam.models.folder import save_model
from quickbeam.models.transformer.config import TransformerConfig
from quickbeam.models.transformer.tensors import tensor_shapes
from quickbeam.text.sentencepiece import train_sentencepiece

MEMORY, SECONDS = 4 << 30, 20
FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "pickle.find_class", "socket.connect")
SIZES = (0, 1, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**64 - 1)


@dataclass
class Outcome:
    """What became of the cases of one format."""

    refused: int = 0
    read: int = 0
    wrong: list[str] = field(default_factory=list)


class Harm:
    """What a hostile pickle wants to call."""

    def __init__(self, called: Any, *arguments: Any) -> None:
        self.call = called, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.call


@dataclass(frozen=True)
class Format:
    """A folder in a format, and the file in it that is broken."""

    folder: Path
    file: str
    hostile: Callable[[np.random.Generator, bytes], bytes]


def formats(home: Path) -> dict[str, Format]:
    """All formats that can be made with the packages that are here."""
    ours = _small_model(home / "ours")
    theirs = home / "hugging-face"
    export_hugging_face(ours, theirs)
    found = {
        "safetensors": Format(theirs, "model.safetensors", _hostile_safetensors),
        "config.json": Format(theirs, "config.json", _hostile_json),
        "vocab.json": Format(theirs, "vocab.json", _hostile_json),
        "Marian": Format(_marian(home / "marian", ours), "model.npz", _hostile_npz),
    }
    try:
        import torch
        from safetensors.torch import load_file

        state = load_file(theirs / "model.safetensors")
        for name, new in (("pytorch.bin, zip", True), ("pytorch.bin, legacy", False)):
            folder = home / f"bin-{new}"
            shutil.copytree(theirs, folder)
            (folder / "model.safetensors").unlink()
            torch.save(state, folder / "pytorch_model.bin", _use_new_zipfile_serialization=new)
            found[name] = Format(folder, "pytorch_model.bin", _hostile_pickle)
    except ModuleNotFoundError as error:
        print(f"without {error.name} there are no .bin files", file=sys.stderr)
    try:
        from benchmarks.ctranslate2_model import write

        for kind in ("float32", "int8"):
            folder = write(ours, home / f"ctranslate2-{kind}", kind)
            found[f"CTranslate2 {kind}"] = Format(folder, "model.bin", _hostile_ctranslate2)
    except ModuleNotFoundError as error:
        print(f"without {error.name} there are no models of CTranslate2", file=sys.stderr)
    return found


def _marian(folder: Path, ours: Path) -> Path:
    """The small model under the names of Marian."""
    from quickbeam.models.folder import read_config, read_tensors

    tensors = read_tensors(ours, read_config(ours))
    arrays: dict[str, Any] = {
        "Wemb": tensors["target_embedding"],
        "decoder_ff_logit_out_b": tensors["output_bias"][None],
    }
    for name, tensor in tensors.items():
        if name.count(".") != 4:
            continue
        side, _, block, part, kind = name.split(".")
        prefix = f"{side}_l1_" + {"attention": "self", "cross": "context", "ffn": "ffn"}[block]
        if part == "norm":
            middle = "ffn" if block == "ffn" else "Wo"
            arrays[f"{prefix}_{middle}_ln_{'scale' if kind == 'weight' else 'bias'}"] = tensor[None]
            continue
        letters = {"qkv": "qkv", "out": "o", "query": "q", "key_value": "kv", "up": "1", "down": "2"}[part]
        for letter, piece in zip(letters, np.split(tensor, len(letters)), strict=True):
            found = piece.T if kind == "weight" else piece[None]
            arrays[f"{prefix}_{'W' if kind == 'weight' else 'b'}{letter}"] = found
    options = (
        "type: transformer\nenc-depth: 1\ndec-depth: 1\ntransformer-heads: 2\ntransformer-ffn-activation: relu\n"
        'transformer-postprocess: dan\ntransformer-preprocess: ""\n\0'
    )
    folder.mkdir()
    arrays["special:model.yml"] = np.frombuffer(options.encode(), np.int8)
    np.savez(folder / "model.npz", **arrays)
    shutil.copy(ours.parent / "marian.spm", folder / "vocab.spm")
    return folder


def _hostile_npz(draw: np.random.Generator, whole: bytes) -> bytes:
    """Headers that promise other shapes and dtypes, objects among them; entries that grow."""
    headers = [
        "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 1099511627776), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1," * 70 + "), }",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
        "__import__('os').system('true')",
        "(" * 2000,
    ]
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        entries = old.infolist()
        chosen = entries[int(draw.integers(len(entries)))].filename
        for entry in entries:
            content = old.read(entry)
            if entry.filename == chosen:
                text = headers[int(draw.integers(len(headers)))].encode() + b"\n"
                content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content[-64:]
                if draw.random() < 0.1:
                    content += b"\0" * (8 << 20)
            new.writestr(entry.filename, content)
    return out.getvalue()


def fuzz(cases: int, seed: int, home: Path | None = None) -> dict[str, Outcome]:
    """`cases` broken files of each format."""
    found: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as own, _watched() as events:
        for name, one in formats(home or Path(own)).items():
            whole = (one.folder / one.file).read_bytes()
            read_model(str(one.folder))  # as it is it can be read
            outcome = found[name] = Outcome()
            for case in range(cases):
                draw = np.random.default_rng([seed, case])
                broken = one.hostile(draw, whole) if draw.random() < 0.2 else mutated(draw, whole)
                (one.folder / one.file).write_bytes(broken)
                _read(one.folder, case, outcome, events)
            (one.folder / one.file).write_bytes(whole)
    return found


def _read(folder: Path, case: int, outcome: Outcome, events: list[str]) -> None:
    events.clear()
    signal.alarm(SECONDS)
    try:
        read_model(str(folder))
        outcome.read += 1
    except QuickbeamError as error:
        outcome.refused += 1
        if len(str(error)) < 20:
            outcome.wrong.append(f"case {case}: the error says little: {error}")
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        outcome.wrong.append(f"case {case}: {type(error).__name__}: {error}")
    finally:
        signal.alarm(0)
    if events:
        outcome.wrong.append(f"case {case}: called {events[0]}")


@contextmanager
def _watched() -> Iterator[list[str]]:
    """Note forbidden calls, and bound memory and time."""
    events: list[str] = []

    def audit(event: str, _: Any) -> None:
        if event.startswith(FORBIDDEN):
            events.append(event)

    def expired(_: int, __: FrameType | None) -> None:
        raise TimeoutError(f"it took more than {SECONDS} seconds")

    sys.addaudithook(audit)  # stays, but nobody looks at `events` afterwards
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = (
        int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize() if os.path.exists("/proc") else 0
    )
    old = signal.signal(signal.SIGALRM, expired)
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, before[1]))
    try:
        yield events
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, old)


def mutated(draw: np.random.Generator, whole: bytes) -> bytes:
    """`whole` with one to four accidents; half of them in its beginning, where headers are."""
    data = bytearray(whole)
    for _ in range(int(draw.integers(1, 5))):
        if not data:
            break
        end = len(data) if draw.random() < 0.5 else min(len(data), 4096)
        place, kind = int(draw.integers(end)), int(draw.integers(7))
        length = int(draw.integers(1, 65))
        if kind == 0:
            del data[place:]
        elif kind == 1:
            data[place] = int(draw.integers(256))
        elif kind == 2:
            data[place] ^= 1 << int(draw.integers(8))
        elif kind == 3:
            width = int(draw.choice([2, 4, 8]))
            number = SIZES[int(draw.integers(len(SIZES)))] % 2 ** (8 * width)
            data[place : place + width] = number.to_bytes(width, "little")
        elif kind == 4:
            del data[place : place + length]
        elif kind == 5:
            other = int(draw.integers(len(data)))
            data[place:place] = data[other : other + length]
        else:
            data[place:place] = draw.bytes(length)
    return bytes(data)


def _hostile_json(draw: np.random.Generator, whole: bytes) -> bytes:
    facts = json.loads(whole)
    key = list(facts)[int(draw.integers(len(facts)))]
    huge: list[Any] = [
        10**18,
        -1,
        1e308,
        None,
        [],
        {},
        "x" * 10_000,
        True,
        [[]] * 50,
        {"a": {"b": {}}},
        "\ud800",
        2**40,
    ]
    facts[key] = huge[int(draw.integers(len(huge)))]
    text = json.dumps(facts)
    tricks = [
        text,
        "[" * 100_000,
        text.replace("}", "," * 20, 1),
        "9" * 10_000,
        "",
        "null",
        text + text,
        "\ufeff" + text,
    ]
    return tricks[0 if draw.random() < 0.7 else int(draw.integers(len(tricks)))].encode("utf-8", "replace")


def _hostile_safetensors(draw: np.random.Generator, whole: bytes) -> bytes:
    size = int.from_bytes(whole[:8], "little")
    header, body = json.loads(whole[8 : 8 + size]), whole[8 + size :]
    name = [key for key in header if key != "__metadata__"][int(draw.integers(len(header) - 1))]
    entry = header[name]
    changes: list[dict[str, Any]] = [
        {"shape": [2**40, 2**40]},
        {"shape": [0]},
        {"shape": [-1]},
        {"data_offsets": [0, 2**63]},
        {"data_offsets": [5, 1]},
        {"dtype": "I64"},
        {"dtype": "F8_E4M3"},
        {"dtype": "nothing"},
        {"dtype": "BF16"},
        {"shape": [1] * 1000},
    ]
    header[name] = entry | changes[int(draw.integers(len(changes)))]
    if draw.random() < 0.2:
        header["one more tensor"] = entry
    text = json.dumps(header).encode()
    length = len(text) if draw.random() < 0.8 else SIZES[int(draw.integers(len(SIZES)))]
    return struct.pack("<Q", length) + text + body


def _hostile_pickle(draw: np.random.Generator, whole: bytes) -> bytes:
    """A pickle that would run something, alone or in the archive; or one that promises what is not there."""
    harms: list[Any] = [
        Harm(os.system, "true"),
        Harm(eval, "__import__('os').system('true')"),
        Harm(exec, "raise SystemExit"),
        Harm(getattr, "x", "__class__"),
        Harm(print, "x"),
        {"weight": Harm(os.system, "true")},
        [[[[[[]]]]]] * 3,
        "x" * 1000,
        {(1, 2): 3},
        2**100,
    ]
    harm = harms[int(draw.integers(len(harms)))]
    data = pickle.dumps(harm, protocol=int(draw.integers(0, 6)))
    kind = int(draw.integers(4))
    if kind == 0:
        return data
    if kind == 1:  # a bomb of references: each list holds the one before many times
        bomb = b"\x80\x02]q\0" + b"".join(
            b"](" + b"h" + bytes([i]) + (b"h" + bytes([i])) * 200 + b"eq" + bytes([i + 1]) for i in range(20)
        )
        data = bomb + b"."
    if kind == 2:
        data = b"\x80\x04" + draw.bytes(int(draw.integers(1, 200)))
    if whole[:2] != b"PK":
        return whole[: int(draw.integers(60, 160))] + data
    out = io.BytesIO()
    stored = draw.random() < 0.8
    with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(out, "w") as new:
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename.endswith("data.pkl"):
                content = data
            elif draw.random() < 0.1:
                content = b"\0" * (1 << 20)
            new.writestr(entry.filename, content, zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED)
    return out.getvalue()


def _hostile_ctranslate2(draw: np.random.Generator, whole: bytes) -> bytes:
    """Numbers of the header made huge, and names changed for each other."""
    data = bytearray(whole)
    names = (b"weight\0", b"bias\0", b"gamma\0", b"weight_scale\0", b"layer_0", b"num_heads\0", b"linear_0")
    for _ in range(int(draw.integers(1, 4))):
        name = names[int(draw.integers(len(names)))]
        places = [i for i in range(len(data)) if data.startswith(name, i)][:200]
        if not places:
            continue
        behind = places[int(draw.integers(len(places)))] + len(name)
        at = behind + int(draw.integers(0, 16))
        data[at : at + 4] = (SIZES[int(draw.integers(len(SIZES)))] % 2**32).to_bytes(4, "little")
    return bytes(data)


def _small_model(folder: Path) -> Path:
    config = TransformerConfig(
        source_vocab_size=100, target_vocab_size=100, hidden_dim=8, encoder_layers=1, decoder_layers=1, encoder_heads=2,
        decoder_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, norm="post", encoder_final_norm=False,
        decoder_final_norm=False, shared_embedding=True, tied_output=True,
    )  # fmt: skip
    draw = np.random.default_rng(0)
    tensors = {name: draw.normal(0, 1, shape).astype(np.float32) for name, shape in tensor_shapes(config).items()}
    folder.parent.mkdir(parents=True, exist_ok=True)
    lines = (record.ROOT / "demo/german.txt").read_text(encoding="utf-8").splitlines()
    spm = folder.parent / "words.spm"
    train_sentencepiece(lines, spm, config.source_vocab_size, 1.0, 1)
    save_model(folder, config, tensors, {"source.spm": spm.read_bytes()}, "# small\n")
    train_sentencepiece(lines, folder.parent / "marian.spm", config.source_vocab_size, 1.0, 1)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="not needed here; every benchmark takes it")
    parser.add_argument("--cases", type=int, default=10_000, help="of each format")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    found = fuzz(arguments.cases, arguments.seed)
    for name, one in found.items():
        print(f"{name}: {one.refused} refused, {one.read} read, {len(one.wrong)} wrong")
        print("".join(f"  {said}\n" for said in one.wrong[:10]), end="")
    figures = {name: {"refused": one.refused, "read": one.read, "wrong": len(one.wrong)} for name, one in found.items()}
    record.write("imports", {"formats": figures}, threads=1, options={"cases": arguments.cases, "seed": arguments.seed})


if __name__ == "__main__":
    main()
