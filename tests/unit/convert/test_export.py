"""Models of ours as MarianMT of Hugging Face: it says the same, and what comes back is what went out."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest
from support.foreign import demo_sentences, train_pieces

from sharpbeam.convert.hugging_face_export import export_hugging_face
from sharpbeam.convert.readers.hugging_face.read import read_hugging_face
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.models.transformer.tensors import tensor_shapes
from sharpbeam.storage.model_folder import save_model

CONFIG = TransformerConfig(
    source_vocab_size=180,
    target_vocab_size=150,
    hidden_dim=16,
    encoder_layers=2,
    decoder_layers=1,
    encoder_heads=2,
    decoder_heads=4,
    encoder_ffn_dim=24,
    decoder_ffn_dim=20,
    norm="post",
    encoder_final_norm=False,
    decoder_final_norm=False,
)
SPECIAL = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": 3}


def save(folder, config):
    draw = np.random.default_rng(3)
    tensors = {name: draw.normal(0, 0.3, shape).astype(np.float32) for name, shape in tensor_shapes(config).items()}
    for name in tensors:
        if name.endswith("norm.weight"):
            tensors[name] += 1
    tensors["output_bias"][config.eos_id] = 1.0
    files = {
        "source.spm": train_pieces(demo_sentences(), config.source_vocab_size, **SPECIAL),
        "target.spm": train_pieces(demo_sentences()[::2], config.target_vocab_size, **SPECIAL),
    }
    save_model(folder, config, tensors, files, "# toy\n")
    return folder


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tied_output": True},
        {"attention_bias": False, "ffn_bias": False},
        {"activation": "swish", "scaled_embedding": False},
    ],
    ids=lambda changes: "-".join(changes) or "plain",
)
def test_hugging_face_says_the_same(transformers, tmp_path, changes):
    folder = save(tmp_path / "ours", dataclasses.replace(CONFIG, **changes))
    export_hugging_face(folder, tmp_path / "theirs")
    from support.torch_model import torch_translator

    ours = torch_translator(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "theirs").eval()
    texts = demo_sentences()[:5]
    for text, answer in zip(texts, ours.translate(texts, raw=True, beam_size=4, max_length=12), strict=True):
        ids = tokenizer([text], return_tensors="pt")
        assert ids["input_ids"][0].tolist() == [*ours.loaded.source.encode(text), CONFIG.eos_id]
        out = model.generate(**ids, num_beams=4, max_new_tokens=12, return_dict_in_generate=True, output_scores=True)
        tokens = [token for token in out.sequences[0].tolist()[1:] if token not in (2, 3)]
        assert [ours.loaded.target.piece(token) for token in tokens] == list(answer.hypotheses[0].tokens)
        assert abs(float(out.sequences_scores[0]) - answer.score) < 1e-4


def test_what_comes_back_is_what_went_out(marian, tmp_path):
    first = read_hugging_face(marian)
    first.save(tmp_path / "ours", "toy")
    export_hugging_face(tmp_path / "ours", tmp_path / "theirs")
    second = read_hugging_face(tmp_path / "theirs")
    assert second.config == first.config
    assert second.source.serialized == first.source.serialized
    assert second.target.serialized == first.target.serialized
    assert first.tensors.keys() == second.tensors.keys()
    assert all(np.array_equal(first.tensors[name], second.tensors[name]) for name in first.tensors)


@pytest.mark.parametrize(
    "change",
    [
        {"norm": "pre"},
        {"gated_ffn": True},
        {"decoder_kind": "ssru"},
        {"positions": "sinusoidal-t2t"},
        {"experts": 2, "encoder_expert_step": 1},
    ],
)
def test_what_it_cannot_say_is_refused_by_name(tmp_path, change):
    folder = save(tmp_path / "ours", dataclasses.replace(CONFIG, **change))
    with pytest.raises(ModelError, match=next(iter(change))):
        export_hugging_face(folder, tmp_path / "theirs")
    assert not (tmp_path / "theirs").exists()
    shutil.rmtree(folder)
