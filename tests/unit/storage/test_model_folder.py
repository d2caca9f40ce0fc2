"""A model folder: saved and loaded the same (truth 9); a wrong one is a named error."""

from __future__ import annotations

import dataclasses
import fcntl
import os
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file
from support.small_folder import TINY, answer, edit, rewrite

from sharpbeam import MachineOptions
from sharpbeam.decoding.loading import load_weights
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.models.native import NativeModel
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.model_folder import (
    CONFIG_LIMIT,
    DIGEST,
    read_config,
    read_tensors,
    save_model,
    verify_weights,
    weight_types,
)
from sharpbeam.storage.tensors import Int8Matrix


def test_a_config_that_could_not_be_read_again_is_not_saved(tmp_path):
    config = TransformerConfig(
        source_vocab_size=9000, target_vocab_size=9000, hidden_dim=4, encoder_layers=1, decoder_layers=1,
        encoder_heads=1, decoder_heads=1, encoder_ffn_dim=4, decoder_ffn_dim=4, norm="post", shared_embedding=True,
        tied_output=True, encoder_final_norm=False, decoder_final_norm=False, suppressed_ids=tuple(range(100, 9000)),
    )  # fmt: skip
    draw = np.random.default_rng(0)
    tensors = {name: draw.normal(0, 1, shape).astype(np.float32) for name, shape in config.tensor_shapes().items()}
    with pytest.raises(ModelError, match=r"config\.json would have \d+ bytes, and at most 65536 are read"):
        save_model(tmp_path / "model", config, tensors, {}, "# card\n")
    assert not list(tmp_path.iterdir())


def test_save_then_load_gives_the_same_answer(config, build, tmp_path, make_tensors, walk):
    tensors, path = make_tensors(config), walk(config)
    save_model(tmp_path / "model", config, tensors, {}, "")
    is_native, built = build is NativeModel, build(config, tensors)
    loaded = load_weights(tmp_path / "model") if is_native else build(config, read_tensors(tmp_path / "model", config))
    assert path.run(loaded.open()).tobytes() == path.run(built.open()).tobytes()
    for got, expected in zip(loaded.output(), built.output(), strict=True):
        assert got.tobytes() == expected.tobytes()
    assert (loaded.bos_id, loaded.eos_id) == (config.bos_id, config.eos_id)


def test_the_output_matrix_is_the_one_of_the_tensors(make_tensors):
    tensors = make_tensors(TINY)
    weight, bias = NativeModel(TINY, tensors).output()
    assert np.array_equal(weight, tensors["target_embedding"]) and np.array_equal(bias, tensors["output_bias"])
    untied = dataclasses.replace(TINY, tied_output=False)
    tensors = make_tensors(untied)
    assert np.array_equal(NativeModel(untied, tensors).output()[0], tensors["output_weight"])


def test_half_precision_weights_are_read_as_float32(folder, make_tensors):
    half = {name: tensor.astype(np.float16) for name, tensor in make_tensors(TINY).items()}
    save_model(folder, TINY, half, {}, "")
    for name, tensor in read_tensors(folder, TINY).items():
        assert tensor.dtype == np.float32 and np.array_equal(tensor, half[name])


def test_float16_matrices_stay_so_until_they_are_packed_and_give_the_same_bits(config, tmp_path, make_tensors, walk):
    half = {name: tensor.astype(np.float16) for name, tensor in make_tensors(config).items()}
    largest = next(tensor for name, tensor in half.items() if tensor.ndim == 2 and "embedding" not in name)
    largest.flat[:4] = 0.0, -6e-8, 6e-5, 65504.0  # the least subnormal and normal numbers, and the largest
    save_model(tmp_path / "model", config, half, {}, "")
    result, path = read_tensors(tmp_path / "model", config, widen=False), walk(config)
    assert sum(tensor.dtype == np.float16 for tensor in result.values()) > 2
    wide = NativeModel(config, read_tensors(tmp_path / "model", config))
    assert path.run(load_weights(tmp_path / "model").open()).tobytes() == path.run(wide.open()).tobytes()


def quantized(tensors):
    return {name: Int8Matrix.quantized(t) if t.ndim == 2 else t for name, t in tensors.items()}


def test_int8_weights_are_read_as_the_floats_that_they_stand_for(folder, make_tensors):
    tensors = quantized(make_tensors(TINY))
    save_model(folder, TINY, tensors, {}, "")
    result = read_tensors(folder, TINY)
    assert weight_types(folder) == ["int8", "float32"]
    for name, tensor in make_tensors(TINY).items():
        expected = tensors[name].integers / tensors[name].scale if tensor.ndim == 2 else tensor
        assert result[name].dtype == np.float32 and np.array_equal(result[name], expected)
        assert (np.abs(result[name] - tensor) <= np.abs(tensor).max(-1, keepdims=True) * 0.501 / 127).all()
    assert answer(load_weights(folder)) == answer(NativeModel(TINY, dict(result)))


def test_int8_matrices_stay_so_until_they_are_packed_and_give_the_same_bits(config, tmp_path, make_tensors, walk):
    save_model(tmp_path / "model", config, quantized(make_tensors(config)), {}, "")
    result, path = read_tensors(tmp_path / "model", config, widen=False), walk(config)
    tables = {name for name, tensor in result.items() if tensor.ndim == 2 and tensor.dtype == np.float32}
    assert tables <= {"source_embedding", "target_embedding", "output_weight"}
    assert sum(tensor.dtype == np.int8 for tensor in result.values()) > 2
    wide = NativeModel(config, read_tensors(tmp_path / "model", config))
    assert path.run(load_weights(tmp_path / "model").open()).tobytes() == path.run(wide.open()).tobytes()


@pytest.mark.parametrize("scale", [0.0, 1e-38, np.nan])
def test_scales_that_make_no_finite_weights_are_refused(folder, make_tensors, scale):
    save_model(folder, TINY, quantized(make_tensors(TINY)), {}, "")
    tensors = load_file(folder / "model.safetensors")
    name = next(name for name in tensors if name.endswith(".scale") and "embedding" not in name)
    tensors[name][0] = scale
    rewrite(folder, tensors)
    with pytest.raises(ModelError, match="not finite"):
        load_weights(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop("target_embedding.scale"), "'target_embedding' is I8; it must have 'target_embedding.scale'"),
        (lambda t: t.update({"target_embedding.scale": np.ones(4, np.float32)}), "F32, one a row"),
        (lambda t: t.update({"target_embedding.scale": np.ones(5, np.float16)}), "F32, one a row"),
        (lambda t: t.update({"target_embedding.scale": np.zeros(5, np.float32)}), "not finite"),
        (lambda t: t.update({"target_embedding.scale": np.full(5, np.nan, np.float32)}), "not finite"),
        (lambda t: t.update({"output_bias.scale": np.ones(5, np.float32)}), "unknown tensor 'output_bias.scale'"),
        (lambda t: t.update({"output_bias": np.ones(5, np.int8), "output_bias.scale": np.ones(5, "f4")}), "is I8"),
    ],
)
def test_int8_weights_with_wrong_scales_are_refused(folder, make_tensors, change, message):
    save_model(folder, TINY, quantized(make_tensors(TINY)), {}, "")
    tensors = load_file(folder / "model.safetensors")
    tensors["target_embedding"][...] = 1
    change(tensors)
    rewrite(folder, tensors)
    with pytest.raises(ModelError, match=message):
        load_weights(folder)


def test_large_weights_are_hashed_only_when_asked(folder, monkeypatch):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")
    with pytest.raises(ModelError, match="is not the file that was saved"):
        read_tensors(folder, TINY)
    monkeypatch.setattr("sharpbeam.storage.model_folder._HASHED", 10)
    read_tensors(folder, TINY)
    with pytest.raises(ModelError, match="is not the file that was saved"):
        verify_weights(folder)
    edit(folder, **{DIGEST: None})
    assert not verify_weights(folder)


def test_a_replaced_folder_is_whole(folder, make_tensors):
    save_model(folder, TINY, make_tensors(TINY, seed=2), {"target.spm": b"other"}, "# new\n")
    assert sorted(p.name for p in folder.iterdir()) == ["README.md", "config.json", "model.safetensors", "target.spm"]
    assert [p.name for p in folder.parent.iterdir()] == ["model"]
    assert answer(load_weights(folder)) == answer(NativeModel(TINY, make_tensors(TINY, seed=2)))


def test_a_save_that_fails_leaves_the_old_folder(folder, make_tensors):
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    with pytest.raises(OSError):
        save_model(folder, TINY, make_tensors(TINY, seed=2), {"no/such/place.spm": b""}, "")
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_a_kill_at_any_call_of_the_system_leaves_a_whole_folder(folder, monkeypatch, make_tensors):
    """A kill is played by an error at each flush, rename and removal, after which nothing is cleared up."""
    calls, seen = 0, set()

    class Kill(BaseException):
        pass

    def dying(real, last):
        def call(*arguments, **options):
            nonlocal calls
            calls += 1
            if calls >= last:
                raise Kill
            return real(*arguments, **options)

        return call

    old, new = answer(load_weights(folder)), answer(NativeModel(TINY, make_tensors(TINY, seed=2)))
    for last in range(1, 8):  # four files, their folder, the one above it, the removal of the old one
        calls = 0
        with monkeypatch.context() as patch, pytest.raises(Kill):
            for module, name in ((os, "fsync"), (os, "replace"), (shutil, "rmtree")):
                patch.setattr(module, name, dying(getattr(module, name), last))
            save_model(folder, TINY, make_tensors(TINY, seed=2), {"source.spm": b""}, "")
        result = answer(load_weights(folder))
        assert result in (old, new)
        seen.add(result)
        save_model(folder, TINY, make_tensors(TINY), {"source.spm": b"pieces"}, "")
        assert [p.name for p in folder.parent.iterdir()] == ["model"]
    assert seen == {old, new}


def test_without_an_exchange_the_folder_is_replaced_all_the_same(folder, monkeypatch, make_tensors):
    monkeypatch.setattr("sharpbeam.storage.atomic._exchange", lambda one, other: False)
    test_a_replaced_folder_is_whole(folder, make_tensors)


def test_a_place_where_no_folder_can_be_made_is_named_as_it_was_given(tmp_path, make_tensors):
    (tmp_path / "file").write_bytes(b"")
    for folder in (tmp_path / "file" / "model", tmp_path / ("x" * 250)):  # 250 letters: too many with what is appended
        with pytest.raises(OSError, match="no folder can be made there") as caught:
            save_model(folder, TINY, make_tensors(TINY), {}, "")
        assert caught.value.filename == str(folder)


def test_a_link_to_a_folder_stays_a_link(folder, make_tensors):
    link = folder.parent / "link"
    link.symlink_to(folder.name)
    save_model(link, TINY, make_tensors(TINY, seed=5), {}, "")
    assert link.is_symlink() and {path.name for path in folder.parent.iterdir()} == {"link", folder.name}
    assert np.array_equal(
        load_file(folder / "model.safetensors")["output_bias"], make_tensors(TINY, seed=5)["output_bias"]
    )


def test_a_pipe_in_the_place_of_the_config_is_refused(folder):
    (folder / "config.json").unlink()
    os.mkfifo(folder / "config.json")
    with pytest.raises(ModelError, match="no regular file"):
        read_config(folder)


def test_what_killed_runs_left_is_removed_and_nothing_else(folder, make_tensors):
    """Theirs end in sixteen random digits; a folder that a user named after ours is not one of them."""
    ours, at_work = (f".model.sharpbeam-{digit * 16}" for digit in "3a")
    users = (".model.sharpbeam-previous", ".model.previous", ".model.old.settings", f".other.sharpbeam-{'3' * 16}")
    names = (ours, *users, at_work)
    for name in names:
        (folder.parent / name).mkdir()
    at_work = os.open(folder.parent / names[-1], os.O_RDONLY)
    fcntl.flock(at_work, fcntl.LOCK_EX)
    save_model(folder, TINY, make_tensors(TINY), {}, "")
    os.close(at_work)
    assert {p.name for p in folder.parent.iterdir()} == {"model", *names[1:]}


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_not_saved(folder, value, make_tensors):
    tensors = make_tensors(TINY, seed=2)
    tensors["output_bias"][0] = value
    before = answer(load_weights(folder))
    with pytest.raises(ModelError, match="tensor 'output_bias' holds a value that is not finite"):
        save_model(folder, TINY, tensors, {}, "")
    assert answer(load_weights(folder)) == before


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_matrices_that_are_not_finite_are_not_saved_in_int8(folder, value, make_tensors):
    tensors = make_tensors(TINY, seed=2)
    matrix = tensors["decoder.bridge.weight"].copy()
    matrix[1, 1] = value
    with pytest.raises(ModelError, match=r"tensor 'decoder\.bridge\.weight' holds a value that is not finite"):
        save_model(folder, TINY, tensors | {"decoder.bridge.weight": Int8Matrix.quantized(matrix)}, {}, "")
    matrix[1] = 1e-39
    assert np.array_equal(Int8Matrix.quantized(matrix).values()[1], np.zeros(matrix.shape[1], np.float32))
    save_model(folder, TINY, tensors | {"decoder.bridge.weight": Int8Matrix.quantized(matrix)}, {}, "")
    load_weights(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(ModelError, match=name):
        load_weights(folder)


def test_a_folder_that_is_none_is_named(tmp_path):
    with pytest.raises(ModelError, match=r"no model folder .*nowhere"):
        load_weights(tmp_path / "nowhere")


FACTS = {
    "unknown key": ({"decoder_dims": 3}, "unknown option 'decoder_dims'.* Did you mean 'decoder_dim'"),
    "missing key": ({"source_vocab_size": None}, "'source_vocab_size' is missing"),
    "text for a number": ({"decoder_dim": "3"}, "decoder_dim is '3'; it must be a whole number"),
    "fraction": ({"decoder_dim": 3.0}, "decoder_dim is 3.0; it must be a whole number"),
    "bool for a number": ({"encoder_layers": True}, "encoder_layers is True; it must be a whole number"),
    "number for a bool": ({"tied_output": 1}, "tied_output is 1; it must be true or false"),
    "unknown choice": ({"attention": "dot"}, "attention is 'dot'; it must be mlp or tanh_dot"),
    "list for a choice": ({"attention": ["mlp"]}, "attention is .*must be mlp or tanh_dot"),
    "zero": ({"encoder_dim": 0}, "encoder_dim is 0; it must be 1 or more"),
    "negative layers": ({"fc_layers": -1}, "fc_layers is -1"),
    "id outside the vocabulary": ({"eos_id": 5}, "eos_id is 5"),
    "wide": ({"decoder_dim": 10**12}, r"tensor 'decoder\..*the config asks for"),
    "wider than 64 bits": ({"decoder_dim": 10**30}, r"tensor 'decoder\..*the config asks for"),
    "huge vocabulary": ({"source_vocab_size": 10**15, "target_vocab_size": 10**15}, "the config asks for"),
    "endless layers": ({"encoder_layers": 10**15}, "asks for 1000000000000000 layers"),
    "endless fc layers": ({"fc_layers": 10**15, "fc_dim": 3}, "asks for 1000000000000001 layers"),
    "other version": ({"format_version": 2}, "format_version is 2"),
    "no version": ({"format_version": None}, "format_version is None"),
    "true as version": ({"format_version": True}, "format_version is True"),
    "other architecture": ({"architecture": "perceptron"}, "architecture is 'perceptron'"),
    "other weights": ({DIGEST: "0" * 64}, "is not the file that was saved"),
    "no digest but a number": ({DIGEST: 7}, "is not the file that was saved"),
}


@pytest.mark.parametrize("case", FACTS)
def test_a_wrong_fact_is_named(folder, case):
    changes, message = FACTS[case]
    edit(folder, **changes)
    with pytest.raises(ModelError, match=message):
        load_weights(folder)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1]", "7", "\xff", "null", '{"format_version": NaN}', " " * (CONFIG_LIMIT + 1)),
        *('{"a": ' * 5000, "[" * 60000, '{"embedding_dim": ' + "9" * 5000 + "}"),
    ],
    ids=lambda text: text[:16] or "empty",
)
def test_a_config_that_is_none_is_an_error(folder, text):
    (folder / "config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ModelError, match=r"config\.json"):
        load_weights(folder)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_weight_that_is_not_finite_is_named(folder, value, dtype, make_tensors):
    tensors = {name: tensor.astype(dtype) for name, tensor in make_tensors(TINY).items()}
    for name in ("decoder.bridge.bias", "decoder.bridge.weight"):
        broken = {name: tensor.copy() for name, tensor in tensors.items()}
        broken[name].flat[1] = value
        rewrite(folder, broken)
        with pytest.raises(ModelError, match=name + "' holds a value that is not finite"):
            load_weights(folder)


def test_wrong_tensors_are_named(folder):
    tensors = load_file(folder / "model.safetensors")
    for changed, message in (
        (tensors | {"extra": tensors["output_bias"]}, "unknown tensor 'extra'"),
        ({k: v for k, v in tensors.items() if k != "output_bias"}, "tensor 'output_bias' is missing"),
        (tensors | {"output_bias": tensors["output_bias"][:-1]}, r"'output_bias' has shape \(4,\).* \(5,\)"),
        (tensors | {"output_bias": tensors["output_bias"].astype(np.float64)}, "'output_bias' is F64"),
        (tensors | {"output_bias": tensors["output_bias"].astype(np.int32)}, "'output_bias' is I32"),
    ):
        rewrite(folder, changed)
        with pytest.raises(ModelError, match=message):
            load_weights(folder)


def test_an_isa_that_is_not_there_is_refused(folder):
    with pytest.raises(OptionError, match="sse9"):
        load_weights(folder, MachineOptions(isa="sse9"))


@pytest.mark.parametrize(
    "shortcut", [{"precomputed_embeddings": 3}, {"precomputed_attention": True}, {"merge_states": False}]
)
def test_shortcuts_are_refused_where_they_would_be_ignored(make_transformer, folder, shortcut):
    ((name, value),) = shortcut.items()
    message = f"{name} is {value}; it must be .* except for GRU models on a CPU"
    load_weights(folder, MachineOptions(**shortcut))
    for refused, device in ((folder, "torch-cpu"), (make_transformer(), "cpu")):
        with pytest.raises(OptionError, match=message):
            load_weights(refused, MachineOptions(device=device, **shortcut))


def test_products_of_more_words_than_there_are_are_refused(folder):
    words = read_config(folder).target_vocab_size
    load_weights(folder, MachineOptions(precomputed_embeddings=words))
    with pytest.raises(
        OptionError, match=f"precomputed_embeddings is {words + 1}; it must be at most {words}, the tokens that"
    ):
        load_weights(folder, MachineOptions(precomputed_embeddings=words + 1))
