"""Weights and configs of a model folder, damaged at random: a named error, quickly, never a crash."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from support.small_folder import TINY, answer, edit, put

from sharpbeam.decoding.loading import load_weights
from sharpbeam.errors import ModelError
from sharpbeam.models.native import NativeModel
from sharpbeam.storage.model_folder import (
    DIGEST,
    read_config,
    read_tensors,
)


def resident(path):
    """KiB of a mapped file in this process's memory."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    return sum(
        int(next(one for one in lines if one.startswith("Rss:")).split()[1]) for line in lines if str(path) in line
    )


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="there is no /proc/self/smaps")
def test_forgotten_pages_leave_the_memory_and_are_read_again(folder):
    tensors = read_tensors(folder, TINY)
    before = {name: tensor.copy() for name, tensor in tensors.items()}
    assert resident(folder / "model.safetensors") > 0
    tensors.forget()
    assert resident(folder / "model.safetensors") == 0
    assert all(np.array_equal(tensors[name], before[name]) for name in before)


def test_a_header_that_promises_terabytes_allocates_nothing(folder):
    header = json.dumps({"output_bias": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}).encode()
    for data in (struct.pack("<Q", len(header)) + header, struct.pack("<Q", 1 << 60), struct.pack("<Q", 1 << 26)):
        (folder / "model.safetensors").write_bytes(data)
        edit(folder, **{DIGEST: None})
        with pytest.raises(ModelError, match="cannot be read as safetensors"):
            load_weights(folder)


def mutate(data, draw):
    """Bytes changed, cut, doubled or replaced at random places; the header is hit as often as the weights."""
    changed = bytearray(data)
    end = len(data) if draw.random() < 0.5 else 8 + struct.unpack("<Q", data[:8])[0]
    match draw.randrange(6):
        case 0:
            changed[draw.randrange(end)] = draw.randrange(256)
        case 1:
            changed[draw.randrange(end)] ^= 1 << draw.randrange(8)
        case 2:
            del changed[draw.randrange(end) :]
        case 3:
            begin = draw.randrange(end)
            changed[begin : begin + draw.randrange(1, 20)] = draw.randbytes(draw.randrange(20))
        case 4:
            begin = draw.randrange(end)
            changed[begin:begin] = changed[begin : begin + draw.randrange(1, 40)]
        case 5:
            digits = [i for i in range(8, end) if chr(changed[i]).isdigit()]
            changed[draw.choice(digits)] = ord(draw.choice("0123456789-.e"))
    return bytes(changed)


def test_two_thousand_damaged_weight_files_are_errors(folder):
    path, draw = folder / "model.safetensors", random.Random(5)
    data, right = path.read_bytes(), answer(load_weights(folder))
    errors = 0
    for _ in range(2_000):
        put(path, mutate(data, draw))
        try:
            assert answer(load_weights(folder)) == right
        except ModelError:
            errors += 1
    assert errors > 1_800


def test_eight_thousand_damaged_weight_files_that_are_not_signed_never_crash(folder):
    """Without a digest a changed weight cannot be told from a trained one; all else is an error."""
    path, draw = folder / "model.safetensors", random.Random(6)
    edit(folder, **{DIGEST: None})
    data, loaded, errors = path.read_bytes(), 0, 0
    for _ in range(8_000):
        put(path, mutate(data, draw))
        try:
            answer(NativeModel(TINY, read_tensors(folder, TINY)))
            loaded += 1
        except ModelError:
            errors += 1
    assert loaded > 500 and errors > 6_000


def test_damaged_configs_never_crash(folder):
    path, draw = folder / "config.json", random.Random(7)
    data = path.read_bytes()
    for _ in range(1_500):
        changed = bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            changed[draw.randrange(len(data))] = draw.choice(b'0123456789"{}[],:-.eE \\truefalsn\x00\xff')
        put(path, changed)
        try:
            read_tensors(folder, read_config(folder))
        except ModelError:
            continue


@pytest.mark.parametrize("more", [1, 2, 3, 4])
def test_tensors_at_any_byte_of_a_file_are_whole_floats(folder, more):
    """The format does not say where tensors begin; our own files pad the header to eight bytes, others need not."""
    path, sound = folder / "model.safetensors", answer(load_weights(folder))
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    path.write_bytes(struct.pack("<Q", size + more) + data[8 : 8 + size] + b" " * more + data[8 + size :])
    edit(folder, **{DIGEST: None})
    tensors = read_tensors(folder, read_config(folder))
    assert all(tensor.flags.aligned and tensor.flags.c_contiguous for tensor in tensors.values())
    assert answer(load_weights(folder)) == sound
