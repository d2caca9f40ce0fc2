"""Truth 8 for every type of product: the scores of a search are the forced scores of its answers, to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import random_tensors
from support.searches import hypotheses

from sharpbeam import MachineOptions, Translator
from sharpbeam.decoding.forced import force_all
from sharpbeam.decoding.inputs import encode_texts
from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.registry import architecture_of
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.machine import COMPUTE_TYPES
from sharpbeam.storage.model_folder import read_config, save_model

_core = pytest.importorskip("sharpbeam._core", reason="the native core is not built")

SHARP = {"decoder_cell": "attentional", "attention": "tanh_dot", "fc_layers": 3, "fc_dim": 21, "top": "gru"}
TRANSFORMER = {"encoder_layers": 1, "decoder_layers": 2, "encoder_heads": 2, "decoder_heads": 2}
CONFIGS: dict[str, Any] = {
    "cube": GruConfig(200, 200, 16, 1, 12, 20, attention_dim=12, hidden_dim=16),
    "sharp": GruConfig(200, 200, 16, 1, 12, 20, attention_dim=12, hidden_dim=18, top_dim=18, **SHARP),
    "lstm": LstmAttentionConfig(200, 200, 16, 2, 18),
    "transformer": TransformerConfig(200, 200, 16, encoder_ffn_dim=20, decoder_ffn_dim=20, **TRANSFORMER),
    "ssru": TransformerConfig(200, 200, 16, encoder_ffn_dim=20, decoder_ffn_dim=20, decoder_kind="ssru", **TRANSFORMER),
}
SHORTCUTS: dict[str, Any] = {"precomputed_embeddings": 100, "precomputed_attention": True}  # of GRU models


def other_tensors(config: Any) -> dict[str, np.ndarray]:
    """Random weights, large enough that the answers depend on the input."""
    draw = np.random.default_rng(3)
    shapes = config.tensor_shapes()
    tensors = {
        name: draw.normal(0, 0.1 if len(shape) == 1 else 0.5, shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    tensors["output_bias"][config.eos_id] += 2.0
    return tensors


@pytest.fixture(scope="module", params=CONFIGS)
def folder(request: pytest.FixtureRequest, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder of each architecture in turn."""
    config = CONFIGS[request.param]
    tensors = random_tensors(config, 1) if isinstance(config, GruConfig) else other_tensors(config)
    made = tmp_path_factory.mktemp("forced") / "model"
    save_model(made, config, tensors, {"source.spm": (tiny_model / "source.spm").read_bytes()}, "# tiny\n")
    return made


def forced(translator: Translator, results: dict[int, Any], texts: list[str], choices: DecodeOptions) -> dict[int, Any]:
    """Log probabilities of the tokens of `found`, eos where a hypothesis ended."""
    eos = translator.loaded.model.eos_id
    requests = [g.request for g in encode_texts(translator.loaded, texts, None, choices) if g.request is not None]
    targets = {
        i: np.array([*h.tokens, *[eos] * (len(h.token_log_probs) - len(h.tokens))], np.int32)
        for i, h in results.items()
    }
    return {i: tuple(v.tolist()) for i, v in force_all(translator.loaded, requests, targets, choices).items()}


@pytest.mark.parametrize("output_layer", ["exact", "scan"])
@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
def test_search_score_is_forced_score(folder: Path, sentences: list[str], compute_type: Any, output_layer: str) -> None:
    texts, answers, architecture = sentences[:8], [], architecture_of(read_config(folder)).name
    choices = DecodeOptions.of(output_layer=output_layer, batch_tokens=30)
    beam = {"beam_size": 4, "num_hypotheses": 2, "max_length": 12, "output_layer": output_layer, "batch_tokens": 70}
    for isa in _core.table_names():
        for shortcuts in ({}, SHORTCUTS) if architecture == "recurrent" else ({},):
            machine = MachineOptions(threads=1, isa=isa, compute_type=compute_type, **shortcuts)
            translator = Translator(folder, machine=machine)
            results = hypotheses(translator, texts, DecodeOptions.of(**beam))
            for rank in range(2):
                searched = {i: hypotheses[rank] for i, hypotheses in results.items()}
                scores = {i: h.token_log_probs for i, h in searched.items()}
                again = forced(translator, searched, texts, choices)
                if output_layer == "exact":
                    assert again == scores
                for i, own in scores.items():  # beams take other sums for some rows of a scan
                    assert again[i] == pytest.approx(own, abs=1e-2)
                if rank == 0 and not shortcuts:
                    answers.append(scores)
                if rank == 0 and compute_type != "float32":  # another type of product gives other scores
                    exact = Translator(folder, machine=MachineOptions(threads=1, isa=isa))
                    assert forced(exact, searched, texts, choices) != scores
    assert len({str(sorted(scores.items())) for scores in answers}) == 1  # on every table
    assert len(set(answers[0].values())) > 4  # the answers depend on the input


@pytest.mark.parametrize("compute_type", COMPUTE_TYPES)
def test_score_gives_a_translation_the_score_that_it_was_found_with(
    folder: Path, sentences: list[str], compute_type: Any
) -> None:
    translator = Translator(folder, machine=MachineOptions(threads=1, compute_type=compute_type))
    results = translator.translate(sentences[:40], beam_size=4, max_length=20)
    cut = translator.loaded.target
    alike = [
        t
        for t in results
        if [*map(cut.piece, cut.encode(t.text))] == [*t.tokens] and len(t.token_scores) > len(t.tokens)
    ]  # the same pieces when the text is cut again, and ended by eos
    scored = translator.score([t.source for t in alike], [t.text for t in alike], length_penalty=1.0)
    assert [answer.token_scores for answer in scored] == [t.token_scores for t in alike]
    assert alike
