"""Small files that would fill the memory are refused before they do."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from sharpbeam.convert.conversion import read_model
from sharpbeam.convert.formats.ctranslate2 import read_model_file
from sharpbeam.convert.formats.hugging_face import read_safetensors, read_torch
from sharpbeam.convert.formats.marian import is_marian_file, read_marian_file, read_npz
from sharpbeam.convert.formats.weights import Weights
from sharpbeam.convert.readers.tokens import read_list
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
        for name in weights.arrays:
            weights.tensor(name, *shared.shape)


@pytest.mark.parametrize("archive", [True, False], ids=["zip", "old"])
@pytest.mark.parametrize(("count", "message"), [(1 << 25, "2000000 operations"), (200_000, "1[0-9]{5} operations")])
def test_a_pickle_of_many_objects_is_refused(tmp_path: Path, archive: bool, count: int, message: str) -> None:
    """Each byte of it would make an object of 64 bytes; the file may be a thousand times smaller still."""
    pytest.importorskip("torch")
    path, pickled = tmp_path / "model.pt", b"\x80\x02" + b"}" * count + b"."
    path.write_bytes(pickled)
    if archive:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if count < 1 << 20 else zipfile.ZIP_STORED) as file:
            file.writestr("model/data.pkl", pickled)
    with pytest.raises(ModelError, match=f"its pickle has more than {message}"):
        read_torch(path)


@pytest.mark.filterwarnings("error")
def test_a_pickle_of_a_few_bytes_that_names_a_huge_value_is_refused(tmp_path: Path) -> None:
    """A tuple of two times the tuple before, 40 deep, where a name should be: 2 to the 40 characters, if printed."""
    pytest.importorskip("torch")
    nested = b")\x94" + b"".join(b"h%c" % i + b"\x86\x94" for i in range(40))
    path = tmp_path / "model.bin"
    path.write_bytes(b"\x80\x04" + nested + b"\x8c\x01x\x93." + b"N." * 4)
    with pytest.raises(ModelError, match=r"cannot be read as a file of PyTorch: Unsupported operand \d+\. Copy"):
        read_torch(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name on this system")
def test_pipes_in_a_folder_are_not_opened(tmp_path: Path) -> None:
    """Opening one waits for a writer, for ever."""
    for name in ("x.bin", "x.npz", "x.pt", "merges.txt", "model.safetensors"):
        os.mkfifo(tmp_path / name)
    assert not is_marian_file(tmp_path / "x.bin")
    for name, read in (
        ("x.npz", read_npz),
        ("x.pt", read_torch),
        ("x.bin", read_marian_file),
        ("x.bin", read_model_file),
        ("model.safetensors", read_safetensors),
    ):
        with pytest.raises((ModelError, InputError), match=r"no regular file|not installed"):
            read(tmp_path / name)
    with pytest.raises(ModelError, match="no regular file"):
        read_list(tmp_path / "merges.txt")
    (tmp_path / "only").mkdir()
    os.mkfifo(tmp_path / "only/x.bin")
    with pytest.raises(ModelError, match="is no model that can be read"):
        read_model(str(tmp_path / "only"))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with a name on this system")
def test_what_may_never_end_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(ModelError, match="no regular file"):
            read_whole(path, ModelError)
        with pytest.raises(InputError, match="no regular file"):
            file_digest(path)
        with pytest.raises(ModelError, match="cannot read"):
            WordVocabulary.load(path)
    (tmp_path / "file").write_text(json.dumps({"words": []}))
    with pytest.raises(ModelError, match="such a file at most 3"):
        read_whole(tmp_path / "file", ModelError, 3)
