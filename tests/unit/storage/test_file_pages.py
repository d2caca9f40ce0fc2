"""Weights on disk are read once: pages of the file go back while others are packed, and no other memory does."""

from __future__ import annotations

import hashlib
import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sharpbeam import _core
from sharpbeam.models.native import NativeModel
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.output_layers.screen import Screen, ScreenLayer
from sharpbeam.storage.artifacts import output_digest
from sharpbeam.storage.model_folder import read_tensors, save_model
from sharpbeam.text.pieces import PieceVocabulary
from sharpbeam.types import Floats

SMAPS = Path("/proc/self/smaps")
needs_proc = pytest.mark.skipif(not SMAPS.exists(), reason="there is no /proc/self/smaps")
MIB = 1 << 20
WORDS = 12_000
CONFIG = TransformerConfig(
    source_vocab_size=WORDS, target_vocab_size=WORDS, hidden_dim=512, encoder_layers=2, decoder_layers=2,
    encoder_heads=8, decoder_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048, shared_embedding=True,
    tied_output=True,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 80 MiB in float32."""
    draw = np.random.default_rng(2)
    shapes = CONFIG.tensor_shapes()
    tensors = {name: draw.standard_normal(shape, np.float32) * np.float32(0.05) for name, shape in shapes.items()}
    special = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": 3}
    words = PieceVocabulary([f"w{i}" for i in range(WORDS)], special, (), None)
    path = tmp_path_factory.mktemp("pages") / "model"
    save_model(path, CONFIG, tensors, {"source.pieces.json": words.listed}, "# random weights\n")
    return path


def resident(path: Path) -> int:
    """Bytes of a mapped file in this process's memory."""
    lines = iter(SMAPS.read_text().splitlines())
    result = (next(one for one in lines if one.startswith("Rss:")) for line in lines if str(path) in line)
    return sum(int(line.split()[1]) for line in result) * 1024


def best(layer: Any, dim: int) -> bytes:
    """Bytes of what a layer says of a few hidden vectors."""
    hidden = np.random.default_rng(5).standard_normal((7, dim), np.float32)
    result = layer.topk(hidden, 4)
    return bytes(result.log_prob.tobytes() + result.token.tobytes())


def screen(draw: np.random.Generator, words: int, dim: int) -> Screen:
    """Two sets, which share a word."""
    half = words // 2
    token = np.concatenate([np.arange(half + 1), np.arange(half, words)]).astype(np.int32)
    start = np.array([0, half + 1, len(token)], np.int32)
    return Screen(draw.standard_normal((2, dim), np.float32), np.zeros(2, np.float32), start, token)


def layers(weight: Floats, bias: Floats) -> dict[str, Any]:
    """Output layers by name, built one after the other."""
    chosen = screen(np.random.default_rng(6), *weight.shape)
    scan = ScanLayer.build(weight, bias)
    return {
        "scan": scan,
        "exact": ExactLayer.build(weight, bias),
        "screen": ScreenLayer.build(weight, bias, chosen, scan),
    }


@needs_proc
@pytest.mark.parametrize("compute_type", ["float32", "int16", "int8"])
def test_what_was_packed_is_not_in_memory(folder: Path, compute_type: str) -> None:
    tensors = read_tensors(folder, CONFIG)
    assert sum(tensor.nbytes for tensor in tensors.values()) > 75 * MIB
    model = NativeModel(CONFIG, tensors, compute_type=compute_type)
    assert resident(folder / "model.safetensors") < 2 * MIB  # norms, and what lies next to them
    built = layers(*model.output())
    assert resident(folder / "model.safetensors") < 2 * MIB
    assert len(built) == 3


@needs_proc
@needs_proc
def test_float16_is_not_in_memory_with_its_copy(folder: Path, tmp_path: Path) -> None:
    tensors = {name: tensor.astype(np.float16) for name, tensor in read_tensors(folder, CONFIG).items()}
    save_model(tmp_path / "half", CONFIG, tensors, {}, "# half\n")
    widened = read_tensors(tmp_path / "half", CONFIG)
    assert resident(tmp_path / "half") < MIB < sum(tensor.nbytes for tensor in tensors.values())
    assert all(np.array_equal(widened[name], tensor) for name, tensor in tensors.items())


def test_pages_that_were_given_back_are_read_again(folder: Path) -> None:
    tensors = read_tensors(folder, CONFIG)
    copies = {name: tensor.copy() for name, tensor in tensors.items()}
    weight, bias = tensors["target_embedding"], tensors["output_bias"]
    built, plain = layers(weight, bias), layers(copies["target_embedding"], copies["output_bias"])
    for name, layer in built.items():
        before = best(layer, CONFIG.hidden_dim)
        tensors.forget()
        assert resident(folder / "model.safetensors") == 0
        assert best(layer, CONFIG.hidden_dim) == before == best(plain[name], CONFIG.hidden_dim)
    assert all(np.array_equal(tensors[name], copies[name]) for name in copies)


def test_no_caller_can_write_to_pages_that_may_go(folder: Path) -> None:
    tensors = read_tensors(folder, CONFIG)
    with pytest.raises(ValueError, match="read-only"):
        tensors["output_bias"][0] = 1.0
    with pytest.raises(ValueError):
        tensors["output_bias"].flags.writeable = True


@pytest.mark.parametrize("compute_type", ["float32", "int16", "int8"])
def test_the_arrays_of_a_caller_stay_as_they_are(folder: Path, compute_type: str) -> None:
    """In private pages, which would be zero if they were released."""
    names = {name: tensor.copy() for name, tensor in read_tensors(folder, CONFIG).items()}
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    pages = mmap.mmap(-1, sum(tensor.nbytes for tensor in names.values()), flags=private)
    chunks, first = {}, 0
    for name, tensor in names.items():
        chunks[name] = np.frombuffer(pages, np.float32, tensor.size, first).reshape(tensor.shape)
        chunks[name][...] = tensor
        first += tensor.nbytes
    model = NativeModel(CONFIG, chunks, compute_type=compute_type)
    layers(*model.output())
    assert all(np.array_equal(chunks[name], tensor) for name, tensor in names.items())


def test_a_matrix_that_would_fill_the_memory_is_read_word_by_word(tmp_path: Path) -> None:
    words, dim = 1 << 18, 256  # 256 MiB, most of which is a hole in the file
    path = tmp_path / "weights"
    some = np.random.default_rng(7).permutation(words)[:600].astype(np.int32)
    rows = np.random.default_rng(8).standard_normal((len(some), dim), np.float32)
    with path.open("w+b") as file:
        file.truncate(4 * words * dim)
        for word, row in zip(some.tolist(), rows, strict=True):
            os.pwrite(file.fileno(), row.tobytes(), 4 * dim * word)
        mapped = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
        weight = _core.file_pages(mapped, file.fileno()).view(np.float32).reshape(words, dim)
    plain = np.zeros((words, dim), np.float32)
    plain[some] = rows
    bias = np.zeros(words, np.float32)
    hidden = np.random.default_rng(9).standard_normal((40, dim), np.float32)
    assert output_digest(weight, bias) == hashlib.sha256(plain.tobytes() + bias.tobytes()).hexdigest()
    sets = Screen(rows[:1], bias[:1], np.array([0, len(some)], np.int32), np.sort(some))
    ours, theirs = (ScreenLayer.build(matrix, bias, sets) for matrix in (weight, plain))
    assert best(ours, dim) == best(theirs, dim)
    ours, theirs = ScanLayer.build(weight, bias), ScanLayer.build(plain, bias)
    assert ours.topk(hidden, 20).log_prob.tobytes() == theirs.topk(hidden, 20).log_prob.tobytes()
    assert ours.topk(hidden, 20).token.tobytes() == theirs.topk(hidden, 20).token.tobytes()
    assert ours.native.topk_details(hidden, 20)[3].sum() > 800
    if SMAPS.exists():
        assert resident(path) == 0
    os.truncate(path, 0)
    with pytest.raises(RuntimeError, match="has become shorter"):
        ours.topk(hidden, 20)


@pytest.mark.parametrize(
    ("array", "message"),
    [(np.zeros(3, np.float32), "array is not a mapped file"), (np.zeros(3, np.uint8), "file is -1")],
)
def test_what_is_no_mapped_file_is_refused(array: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _core.file_pages(array, -1)


PEAK = """
import sys
from sharpbeam import Translator
from sharpbeam.jobs.memory import peak_memory
began = peak_memory()
Translator(sys.argv[1], threads=1, compute_type="int8").translate(["w5 w6"], max_length=4, output_layer=sys.argv[2])
print(peak_memory() - began)
"""


@needs_proc
@pytest.mark.parametrize("output_layer", ["scan", "exact"])
def test_the_peak_is_what_is_packed(folder: Path, output_layer: str) -> None:
    """The first load of a file, which also hashes it and looks for values that are not finite."""
    weights = (folder / "model.safetensors").stat().st_size
    output = 4 * WORDS * CONFIG.hidden_dim
    packed = (weights - output) / 4 + (output if output_layer == "exact" else output / 4)
    command = [sys.executable, "-c", PEAK, str(folder), output_layer]
    peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert packed < peak < packed + 0.6 * weights  # modules, scratch and some pages; all pages would be 1.0
