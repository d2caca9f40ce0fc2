"""The library's `convert_model`: what it stores, and what it refuses before any work."""

from __future__ import annotations

import numpy as np
import pytest
from support.marian_writer import save

from sharpbeam import Translator, convert_model
from sharpbeam.convert.conversion import read_model
from sharpbeam.errors import OptionError, OutputError
from sharpbeam.storage.model_folder import read_config, read_tensors, weight_types


@pytest.mark.parametrize(
    ("quantization", "types"),
    [("auto", ["float32"]), ("float32", ["float32"]), ("int8", ["int8", "float32"])],
)
def test_matrices_are_stored_as_asked(tmp_path, quantization, types):
    path = save(tmp_path / "marian")
    conversion = convert_model(path, tmp_path / "ours", quantization=quantization)
    assert conversion.folder == tmp_path / "ours" and "2+2 layers of width 16" in conversion.summary
    assert weight_types(conversion.folder) == types
    result, expected = read_tensors(conversion.folder, read_config(conversion.folder)), read_model(str(path)).tensors
    for name, tensor in expected.items():
        step = np.abs(tensor).max(axis=-1, keepdims=True) / 127 if quantization == "int8" and tensor.ndim == 2 else 0.0
        assert (np.abs(result[name] - tensor) <= 0.501 * step).all(), name
    assert Translator(conversion.folder).translate(["Guten Morgen."], raw=True, max_length=4)[0].text is not None


def test_what_was_quantized_can_be_widened(tmp_path):
    """The integers of a source are stored as they are; or as the same floats."""
    from support import marian_writer

    path = save(tmp_path / "marian")
    with np.load(path) as arrays:
        path.with_name("model.bin").write_bytes(marian_writer.binary(dict(arrays), 0x4101))
    path.unlink()
    one = convert_model(path.parent, tmp_path / "one").folder
    other = convert_model(path.parent, tmp_path / "other", quantization="float32").folder
    assert (weight_types(one), weight_types(other)) == (["int8", "float32"], ["float32"])
    tensors = [read_tensors(folder, read_config(folder)) for folder in (one, other)]
    assert all(np.array_equal(tensors[0][name], tensors[1][name]) for name in tensors[0])


def test_an_output_is_replaced_only_when_asked(tmp_path):
    path = save(tmp_path / "marian")
    convert_model(path, tmp_path / "ours")
    with pytest.raises(OutputError, match="is there already"):
        convert_model(path, tmp_path / "ours")
    convert_model(path, tmp_path / "ours", overwrite=True)
    with pytest.raises(OutputError, match="is no model folder of Sharpbeam"):
        convert_model(path, path.parent, overwrite=True)
    with pytest.raises(OptionError, match="quantization is 'int4'; it must be auto, int8 or float32"):
        convert_model(path, tmp_path / "other", quantization="int4")
