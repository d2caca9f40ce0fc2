"""Checkpoints of OpenNMT-py: what we answer is what its equations give, and nothing of a file is run."""

from __future__ import annotations

import argparse

import numpy as np
import pytest
from support.reference_search import greedy

from sharpbeam import Translator
from sharpbeam.convert.read import read_model
from sharpbeam.errors import ModelError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
from support.open_nmt_reference import Model  # noqa: E402
from support.torch_model import torch_translator  # noqa: E402

SPECIAL = ["<unk>", "<blank>", "<s>", "</s>"]
SOURCE = [*SPECIAL, *(f"s{i}" for i in range(36))]
TARGET = [*SPECIAL, *(f"t{i}" for i in range(44))]
EOS = TARGET.index("</s>")

SHAPES = {
    "as usual": {},
    "shared": {"share_embeddings": True, "share_decoder_embeddings": True},
    "concatenated sinusoids": {"position_encoding_type": "SinusoidalConcat", "add_qkvbias": True},
    "gated, deep encoder": {"pos_ffn_activation_fn": "silu", "enc_layers": 3, "dec_layers": 1, "add_ffnbias": False},
    "gated gelu": {"pos_ffn_activation_fn": "gated-gelu", "share_decoder_embeddings": True},
    "gelu, no positions": {"pos_ffn_activation_fn": "gelu", "position_encoding": False},
}


def made(**options):
    return Model(TARGET if options.get("share_embeddings") else SOURCE, TARGET, **options).eval()


def saved(folder, checkpoint, **options):
    folder.mkdir(exist_ok=True)
    torch.save(checkpoint, folder / "model_step_1.pt", **options)
    return folder / "model_step_1.pt"


def translator(path, folder, backend="native"):
    read_model(str(path)).save(folder, "from OpenNMT-py")
    return torch_translator(folder) if backend == "torch" else Translator(folder, compute_type="float32")


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("shape", SHAPES)
def test_answers_are_those_of_its_equations(tmp_path, shape, backend):
    reference = made(**SHAPES[shape])
    path = saved(tmp_path / "theirs", reference.checkpoint())
    ours = translator(path, tmp_path / "ours", backend)
    draw = np.random.default_rng(2)
    for length in (1, 5, 9):
        source = draw.integers(4, len(reference.words[0]), length).tolist()
        text = " ".join(reference.words[0][i] for i in source)
        best = ours.translate([text], raw=True, beam_size=1, max_length=10)[0].hypotheses[0]
        assert [TARGET.index(word) for word in best.tokens] == greedy(reference.log_probs, source, EOS, 10)
        for result in ours.translate([text], raw=True, beam_size=4, num_hypotheses=4, max_length=10)[0].hypotheses:
            target = [*(TARGET.index(word) for word in result.tokens), EOS][: len(result.token_scores)]
            expected = reference.log_probs(source, target)[range(len(target)), target]
            np.testing.assert_allclose(result.token_scores, expected, atol=1e-4)


def test_the_reference_sees_an_eos_after_the_source_and_another_order_of_positions():
    """Details that our reader must keep apart change what the reference says."""
    reference, source, target = made(), [4, 5, 6], [7, 8, 3]
    expected = reference.log_probs(source, target)
    assert np.abs(reference.log_probs([*source, 3], target) - expected).max() > 1e-2
    other = made(position_encoding_type="SinusoidalConcat")
    assert np.abs(other.log_probs(source, target) - expected).max() > 1e-2


def test_all_of_attention_is_on_the_text(tmp_path):
    """Without an eos after the source nothing stands there."""
    ours = translator(saved(tmp_path / "theirs", made().checkpoint()), tmp_path / "ours")
    answer = ours.translate(["s3 s4 s5"], raw=True, max_length=6, return_attention=True)[0].hypotheses[0]
    attention = np.array(answer.attention)
    assert attention.shape[1] == 4 and not attention[:, 3].any()
    np.testing.assert_allclose(attention.sum(axis=1), 1.0, atol=1e-5)


@pytest.mark.parametrize("new", [True, False])
def test_both_forms_of_files_and_half_precision_are_read(tmp_path, new):
    model = made()
    whole = read_model(str(saved(tmp_path / "whole", model.checkpoint())))
    half = saved(tmp_path / "half", model.half().checkpoint(optim=None), _use_new_zipfile_serialization=new)
    result = read_model(str(half.parent))  # a folder with one checkpoint
    assert result.config == whole.config and result.tensors.keys() == whole.tensors.keys()
    for name, tensor in result.tensors.items():
        np.testing.assert_allclose(tensor, whole.tensors[name], rtol=1e-3, atol=1e-3)


def test_names_of_version_two_are_read(tmp_path):
    """As its tools/convertv2_v3.py leaves them: a generator in a Sequential, norms of its own, sources without ends."""
    source = [word for word in SOURCE if word not in ("<s>", "</s>")]
    reference = Model(source, TARGET, add_qkvbias=True).eval()
    state = reference.checkpoint()
    norms = {"layer_norm.weight": "layer_norm.a_2", "layer_norm.bias": "layer_norm.b_2"}
    for new, old in norms.items():
        state["model"] = {name.replace(new, old): value for name, value in state["model"].items()}
    state["generator"] = {f"0.{name}": value for name, value in state["generator"].items()}
    for name in ("num_experts", "sliding_window", "num_kv", "norm_eps", "parallel_residual", "position_encoding_type"):
        delattr(state["opt"], name)
    ours = translator(saved(tmp_path / "theirs", state), tmp_path / "ours")
    answer = ours.translate(["s0 s7 s35"], raw=True, beam_size=1, max_length=8)[0].hypotheses[0]
    reference.opt = None
    assert [TARGET.index(word) for word in answer.tokens] == greedy(reference.log_probs, [2, 9, 37], EOS, 8)
    assert ours.loaded.source.encode("<s> </s> s0") == [0, 0, 4]


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("encoder_type", "brnn"),
        ("decoder_type", "transformer_lm"),
        ("model_task", "lm"),
        ("copy_attn", True),
        ("self_attn_type", "average"),
        ("max_relative_positions", 20),
        ("relative_positions_buckets", 32),
        ("parallel_residual", True),
        ("layer_norm", "rms"),
        ("num_kv", 2),
        ("num_experts", 8),
        ("sliding_window", 512),
        ("lora_layers", ["linear_keys"]),
        ("quant_layers", ["w_1"]),
        ("pos_ffn_activation_fn", "fast_gelu"),
        ("position_encoding_type", "Rotary"),
        ("norm_eps", 3.0),
    ],
)
def test_what_we_lack_is_refused_by_name(tmp_path, fact, value):
    checkpoint = made().checkpoint()
    setattr(checkpoint["opt"], fact, value)
    with pytest.raises(ModelError, match=fact):
        read_model(str(saved(tmp_path / "theirs", checkpoint)))


class Field:
    """Stands for torchtext's field; a reader that unpickles would make one."""

    __module__ = "torchtext.data.field"
    __qualname__ = "Field"


def test_objects_are_not_made(tmp_path, monkeypatch):
    """Old vocabularies are objects, which are refused with what to do; other names are refused too."""
    import sys
    import types

    for name in ("torchtext", "torchtext.data", "torchtext.data.field"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["torchtext.data.field"].Field = Field
    old = saved(tmp_path / "old", made().checkpoint(vocab={"src": Field(), "tgt": Field()}))
    with pytest.raises(ModelError, match=r"OpenNMT-py 2 or older.*convertv2_v3\.py"):
        read_model(str(old))
    other = saved(tmp_path / "other", made().checkpoint(optim=argparse.ArgumentParser))
    with pytest.raises(ModelError, match=r"argparse\.ArgumentParser"):
        read_model(str(other))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": None}, "no whole checkpoint.*safetensors"),
        ({"vocab": {"src": SOURCE, "tgt": TARGET[:-1]}}, "target vocabulary has 47 tokens, the embedding 48"),
        ({"vocab": {"src": SOURCE, "tgt": TARGET, "src_feats": [["a"]]}}, "src_feats"),
        ({"vocab": {"src": SOURCE, "tgt": [*TARGET[:-1], "\ud800"]}}, "no character"),
        ({"vocab": {"src": SOURCE, "tgt": TARGET, "decoder_start_token": "<go>"}}, "'<go>', which its vocabulary"),
        ({"generator": {"weight": 3}}, "'generator' does not hold tensors"),
    ],
)
def test_parts_that_do_not_fit_are_refused(tmp_path, changes, message):
    with pytest.raises(ModelError, match=message):
        read_model(str(saved(tmp_path / "theirs", made().checkpoint(**changes))))


def test_a_table_of_other_positions_is_refused(tmp_path):
    checkpoint = made().checkpoint()
    name = "decoder.embeddings.make_embedding.pe.pe"
    checkpoint["model"][name] = checkpoint["model"][name].roll(1, 0)
    with pytest.raises(ModelError, match=f"{name} is no table of SinusoidalInterleaved"):
        read_model(str(saved(tmp_path / "theirs", checkpoint)))


def test_ctranslate2_reads_the_same_model(tmp_path):
    """Its converter and ours find the same tensors, and its engine gives the same answers to sources without eos."""
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    path = saved(tmp_path / "theirs", made(share_decoder_embeddings=True).checkpoint())
    try:
        converter = ctranslate2.converters.OpenNMTPyConverter(str(path), unsafe_deserialization=True)
    except TypeError:
        converter = ctranslate2.converters.OpenNMTPyConverter(str(path))
    converter.convert(str(tmp_path / "ct2"))
    ours, through = read_model(str(path)), read_model(str(tmp_path / "ct2"))
    assert ours.tensors.keys() == through.tensors.keys()
    for name, tensor in ours.tensors.items():
        np.testing.assert_array_equal(tensor, through.tensors[name], err_msg=name)
    assert not through.config.source_eos and through.config.positions == "sinusoidal"
    texts = ["s1 s2 s3", "s30 s7 s7 s21 s9"]
    answers = translator(path, tmp_path / "ours").translate(texts, raw=True, beam_size=3, max_length=9)
    engine = ctranslate2.Translator(str(tmp_path / "ct2"), inter_threads=1, intra_threads=1)
    result = engine.translate_batch([text.split() for text in texts], beam_size=3, max_decoding_length=9)
    assert [list(a.hypotheses[0].tokens) for a in answers] == [one.hypotheses[0] for one in result]
