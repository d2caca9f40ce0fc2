"""`device`: answers in the form for GPUs, on the CPU, are the native ones; what is not there is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sharpbeam import MachineOptions, OptionError, Translator
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.model_folder import save_model

torch = pytest.importorskip("torch")

FAMILIES = {
    "pre-norm": {"norm": "pre", "positions": "sinusoidal"},
    "post-norm, learned, swish, tied": {
        "norm": "post",
        "positions": "learned",
        "max_positions": 64,
        "activation": "swish",
        "encoder_final_norm": False,
        "decoder_final_norm": False,
        "shared_embedding": True,
        "tied_output": True,
    },
    "rms, relative, gated": {
        "norm_kind": "rms",
        "positions": "relative-shared",
        "relative_buckets": 8,
        "relative_distance": 12,
        "gated_ffn": True,
        "scaled_attention": False,
    },
    "experts": {"experts": 4, "encoder_expert_step": 2, "decoder_expert_step": 1},
    "ssru": {"decoder_kind": "ssru", "positions": "sinusoidal-t2t"},
}
LENGTH = {"max_length": 24}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def tokens(translations):
    return [[h.tokens for h in t.hypotheses] for t in translations]


@pytest.fixture
def make_folder(tiny_model, tmp_path, make_tensors):
    """A folder with a small transformer of the given facts, whose answers depend on the input."""

    def make(**facts: Any) -> Path:
        sizes = {"hidden_dim": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_heads": 2, "decoder_heads": 2}
        config = TransformerConfig(200, 200, **sizes, encoder_ffn_dim=20, decoder_ffn_dim=20, **facts)
        tensors = make_tensors(config)
        for name in tensors:
            if name.endswith(("cross.out.weight", "cross.key_value.weight")):
                tensors[name] *= 3.0
        save_model(tmp_path / "model", config, tensors, {"source.spm": (tiny_model / "source.spm").read_bytes()}, "#")
        return tmp_path / "model"

    return make


def both(folder: Path) -> tuple[Translator, Translator]:
    return Translator(folder, device="torch-cpu"), Translator(folder)


@pytest.mark.parametrize("facts", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("choices", [{"beam_size": 1}, {"beam_size": 5}, {"beam_size": 5, "schedule": "stream"}])
def test_a_transformer_says_what_the_native_one_says(facts, choices, make_folder, sentences) -> None:
    device, native = both(make_folder(**facts))
    results = device.translate(sentences[:12], **LENGTH, **choices)
    assert tokens(results) == tokens(native.translate(sentences[:12], **LENGTH, **choices))
    assert len({t.text for t in results}) > 3  # the answers depend on the input


@pytest.mark.parametrize(
    "choices",
    [
        {"beam_size": 1, "return_scores": False},
        {"beam_size": 5, "num_hypotheses": 3},
        {"beam_size": 4, "cube_pruning": "exact"},
        {"sampling": True, "top_k": 5, "seed": 3},
        {"beam_size": 3, "return_attention": True},
        {"beam_size": 2, "no_repeat_ngram_size": 2, "repetition_penalty": 1.2},
    ],
    ids=str,
)
def test_every_search_runs(choices, make_folder, sentences) -> None:
    device, native = both(make_folder())
    results, expected = (one.translate(sentences[:12], **LENGTH, **choices) for one in (device, native))
    assert tokens(results) == tokens(expected)


def test_texts_that_come_while_others_are_decoded(make_folder, sentences) -> None:
    device, native = both(make_folder())
    with device.session(**LENGTH) as session:
        handles = [session.submit(text) for text in sentences[:20]]
        results = [handle.result() for handle in handles]
    assert tokens(results) == tokens(native.translate(sentences[:20], **LENGTH))


def test_scores_of_given_texts(make_folder, sentences) -> None:
    device, native = both(make_folder())
    results, expected = (one.score(sentences[:6], sentences[6:12]) for one in (device, native))
    assert [a.score for a in results] == pytest.approx([a.score for a in expected], abs=1e-3)


def test_choices_that_are_not_there_are_refused_by_name(tiny_model, make_folder) -> None:
    with pytest.raises(OptionError, match="compute_type is 'int8'; it must be auto or float32 or float16"):
        MachineOptions(device="torch-cpu", compute_type="int8")
    with pytest.raises(OptionError, match=r"compute_type is 'float16'; it must be .* need device cuda"):
        MachineOptions(compute_type="float16")
    with pytest.raises(OptionError, match="recurrent models are not there on a GPU; leave the option out"):
        Translator(tiny_model, device="torch-cpu")
    with pytest.raises(OptionError, match="it must be cpu for an ensemble"):
        Translator([tiny_model, tiny_model], device="torch-cpu")
    translator = Translator(make_folder(), device="torch-cpu")
    with pytest.raises(OptionError, match="output_layer is 'scan'; on a GPU it must be auto, exact"):
        translator.translate(["a"], output_layer="scan")
    with pytest.raises(OptionError, match="merge_by is 'likeness'; it must be word with device"):
        translator.translate(["a"], beam_size=4, cube_pruning="exact", merge_by="likeness")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_error_says_how_to_check(tiny_model) -> None:
    with pytest.raises(OptionError, match=r"device is 'cuda', but PyTorch .* nvidia-smi lists the GPUs"):
        Translator(tiny_model, device="cuda")


def test_a_missing_package_is_named_with_its_extra(tiny_model, monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"needs the package torch; run: pip install 'sharpbeam\[gpu\]'"):
        Translator(tiny_model, device="cuda")
