"""Small files that would fill the memory are refused before they do."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sharpbeam.convert.formats.npz import read_npz
from sharpbeam.convert.formats.torch import read_torch
from sharpbeam.convert.formats.weights import Weights
from sharpbeam.errors import InputError, ModelError
from sharpbeam.text.lines import file_digest, read_whole
from sharpbeam.text.words import WordVocabulary


def test_an_archive_of_zeros_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    np.savez_compressed(path, weight=np.zeros(40_000_000, np.int8))
    assert path.stat().st_size < 100_000
    with pytest.raises(ModelError, match="its arrays are larger than such a file can hold"):
        read_npz(path)
    np.savez_compressed(path, weight=np.zeros(1000, np.int8))
    assert read_npz(path)["weight"].size == 1000


def test_many_names_of_one_tensor_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(b"small")
    shared = np.ones((1 << 12, 1 << 10), np.float32)
    weights = Weights(path, {f"layer{i}": shared for i in range(9)})
    with pytest.raises(ModelError, match="too many share their bytes"):
        for name in weights.names():
            weights.tensor(name, *shared.shape)


def test_a_large_pickle_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/data.pkl", b"\x80\x02" + b"}" * (1 << 25) + b".")
    with pytest.raises(ModelError, match="its pickle has 33554435 bytes"):
        read_torch(path)


@pytest.mark.filterwarnings("error")
def test_a_pickle_of_a_few_bytes_that_names_a_huge_value_is_refused(tmp_path: Path) -> None:
    """A tuple of two times the tuple before, 40 deep, where a name should be: 2 to the 40 characters, if printed."""
    pytest.importorskip("torch")
    nested = b")\x94" + b"".join(b"h%c" % i + b"\x86\x94" for i in range(40))
    path = tmp_path / "model.bin"
    path.write_bytes(b"\x80\x04" + nested + b"\x8c\x01x\x93.")
    with pytest.raises(ModelError, match=r"cannot be read as a file of PyTorch: Unsupported operand \d+\.$"):
        read_torch(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name on this system")
def test_what_may_never_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="no regular file"):
            read_whole(path)
        with pytest.raises(InputError, match="no regular file"):
            file_digest(path)
        with pytest.raises(ModelError, match="cannot read the vocabulary"):
            WordVocabulary.load(path)
    (tmp_path / "file").write_text(json.dumps({"words": []}))
    with pytest.raises(OSError, match="such a file at most 3"):
        read_whole(tmp_path / "file", 3)
