"""NLLB-MoE of Hugging Face: tokens and scores of `generate` on the same weights, and what we lack refused by name.

`NllbMoeExperts.forward` of transformers 5 reads the mask of the best expert as expert numbers, so that experts 0 and 1
answer for all. It is replaced by what version 4 computed (and fairseq): each chosen expert's answer times its gate.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.foreign import demo_sentences, flatten

from sharpbeam import Translator
from sharpbeam.convert.readers.hugging_face.read import read_hugging_face
from sharpbeam.errors import ModelError

TEXTS = demo_sentences()[:5]


@pytest.fixture(scope="module")
def moe(transformers, nllb, tmp_path_factory) -> Path:
    """A folder of NLLB-MoE with 6 experts in every second layer of the encoder and every one of the decoder."""
    import torch

    folder = tmp_path_factory.mktemp("moe") / "model"
    shutil.copytree(nllb, folder)
    (folder / "model.safetensors").unlink()
    torch.manual_seed(9)
    config = transformers.NllbMoeConfig(
        vocab_size=json.loads((nllb / "config.json").read_text())["vocab_size"],
        d_model=32,
        encoder_layers=4,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=40,
        num_experts=6,
        encoder_sparse_step=2,
        decoder_sparse_step=1,
        init_std=0.4,
        max_position_embeddings=128,
        moe_token_dropout=0.2,
    )
    model = transformers.NllbMoeForConditionalGeneration(config).eval()
    flatten(model, 0.5)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "experts" in name and name.endswith("bias"):
                tensor.normal_(0.0, 0.5)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def theirs(transformers, moe, monkeypatch) -> Any:
    import torch
    from transformers.models.nllb_moe.modeling_nllb_moe import NllbMoeExperts

    def forward(self: Any, hidden: Any, best: Any, gates: Any) -> Any:
        total = torch.zeros_like(hidden)
        for number in range(self.num_experts):
            rows = gates[:, number] > 0
            total[rows] += gates[rows, number, None] * self[f"expert_{number}"](hidden[rows])
        return total * (1 - self.moe_token_dropout)

    monkeypatch.setattr(NllbMoeExperts, "forward", forward)
    return transformers.NllbMoeForConditionalGeneration.from_pretrained(moe).eval()


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("beam", [1, 4])
def test_tokens_and_scores_are_those_of_generate(transformers, moe, theirs, tmp_path, backend, beam):
    read_hugging_face(moe).save(tmp_path / "ours", "toy")
    from support.torch_model import torch_translator

    ours = (torch_translator if backend == "torch" else Translator)(tmp_path / "ours")
    tokenizer = transformers.NllbTokenizer.from_pretrained(moe, src_lang="deu_Latn")
    target = tokenizer.convert_tokens_to_ids("fra_Latn")
    answers = ours.translate(
        TEXTS, raw=True, source_language="deu_Latn", target_language="fra_Latn", beam_size=beam, max_length=16
    )
    assert len({answer.text for answer in answers}) > 2
    for text, answer in zip(TEXTS, answers, strict=True):
        out = theirs.generate(
            **tokenizer([text], return_tensors="pt"), num_beams=beam, max_new_tokens=16, forced_bos_token_id=target,
            return_dict_in_generate=True, output_scores=True, do_sample=False,
        )  # fmt: skip
        expected = [i for i in out.sequences[0].tolist()[1:] if i not in (1, 2)]
        assert list(answer.hypotheses[0].tokens) == [ours.loaded.target.piece(i) for i in expected]
        if beam > 1:
            assert abs(float(out.sequences_scores[0]) - answer.score) < 1e-4


def test_experts_stand_one_below_the_other_and_the_token_dropout_is_in_their_answers(moe):
    result = read_hugging_face(moe)
    assert (result.config.experts, result.config.encoder_expert_step, result.config.decoder_expert_step) == (6, 2, 1)
    from safetensors.numpy import load_file

    weights = load_file(moe / "model.safetensors")
    name = "model.encoder.layers.3.ffn.experts.expert_4"
    assert np.array_equal(result.tensors["encoder.3.ffn.up.weight"][4 * 48 : 5 * 48], weights[f"{name}.fc1.weight"])
    down = result.tensors["encoder.3.ffn.down.weight"][4 * 32 : 5 * 32]
    assert np.allclose(down, 0.8 * weights[f"{name}.fc2.weight"], rtol=1e-6)
    assert "encoder.2.ffn.router.weight" not in result.tensors


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("moe_eval_capacity_token_fraction", 0.5),
        ("moe_eval_capacity_token_fraction", 0),
        ("second_expert_policy", "random"),
        ("router_dtype", "bfloat16"),
        ("moe_token_dropout", 1.5),
        ("num_experts", 1),
        ("num_experts", 10**9),
        ("num_experts", 7),
        ("encoder_sparse_step", 3),
        ("router_bias", True),
    ],
)
def test_what_we_lack_is_refused_by_name(moe, tmp_path, fact, value):
    folder = shutil.copytree(moe, tmp_path / "other")
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | {fact: value}))
    by_tensors = (fact, value) in (("num_experts", 7), ("encoder_sparse_step", 3), ("router_bias", True))
    with pytest.raises(ModelError, match="tensor '.*(ffn|router)" if by_tensors else f"{fact} is {value!r}"):
        read_hugging_face(folder)
