"""SHARP-7: several models as one. What it says is the mean of what its members say, and every truth holds of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from reference import kernels as reference

from sharpbeam import MachineOptions, ModelError, OptionError, Translator
from sharpbeam.decoding.forced import feed, padded
from sharpbeam.decoding.inputs import encode_texts
from sharpbeam.models.lstm.config import LstmAttentionConfig
from sharpbeam.models.registry import TranslationConfig
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.storage.model_folder import read_config, save_model
from sharpbeam.text.sentencepiece import train_sentencepiece
from sharpbeam.types import Floats

pytest.importorskip("sharpbeam._core", reason="the native core is not built")

OPTIONS = {"max_length": 20, "batch_tokens": 60}
TOLERANCE = 2e-5  # of a log probability; the answers of the members differ by whole units


def save(folder: Path, config: TranslationConfig, seed: int, vocabulary: bytes) -> Path:
    """A model folder with random weights."""
    draw, tensors = np.random.default_rng(seed), {}
    shapes = config.tensor_shapes()
    for name, shape in shapes.items():
        scale = 0.1 if len(shape) == 1 else 0.5 if "embedding" in name else 3.0 * (3.0 / shape[-1]) ** 0.5
        tensors[name] = draw.normal(0, scale, shape).astype(np.float32)
    tensors["output_bias"][config.eos_id] += 7.0
    save_model(folder, config, tensors, {"source.spm": vocabulary}, "# tiny\n")
    return folder


@pytest.fixture(scope="module")
def members(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Three models of three architectures and widths, with one vocabulary."""
    root, words = tmp_path_factory.mktemp("members"), (tiny_model / "source.spm").read_bytes()
    cube = read_config(tiny_model)
    sharp = {"decoder_cell": "attentional", "attention": "tanh_dot", "readout": "none", "tied_output": False}
    stack = {"fc_layers": 3, "fc_dim": 14, "top": "gru", "top_dim": 22, "hidden_dim": 22}
    return (
        save(root / "cube", cube, 1, words),
        save(root / "sharp", replace(cube, **sharp, **stack), 2, words),
        save(root / "lstm", LstmAttentionConfig(200, 200, 16, 2, 18, shared_embedding=True), 3, words),
    )


@pytest.fixture(scope="module", params=[2, 3])
def some(request: pytest.FixtureRequest, members: tuple[Path, ...]) -> tuple[Path, ...]:
    return members[: request.param]


def log_probs(translator: Translator, text: str, target: str) -> Floats:
    """Log probabilities of a single model at every position of a target [T + 1, V], in float64."""
    (encoded,) = encode_texts(translator.loaded, [text], None, DecodeOptions())
    model = translator.loaded.model
    tokens = np.array([*translator.loaded.target.encode(target), model.eos_id], np.int32)
    run, (padded_tokens, length) = model.open(), padded([tokens], model.bos_id)
    state, index = run.admit([encoded.request]), np.array([0], np.int32)
    hidden = [h for _, _, h in feed(run.step, run.retain, index, state, padded_tokens, length, model.bos_id)]
    logits = reference.gemm(np.concatenate(hidden), *model.output())
    return logits - reference.log_sum_exp(logits)


def mean(models: Sequence[Translator], text: str, target: str) -> Floats:
    """The mean of the models' log probabilities, made a distribution again, for the tokens of `target` and eos."""
    total = np.mean([log_probs(model, text, target) for model in models], axis=0)
    total -= np.log(np.exp(total).sum(axis=1, keepdims=True))
    tokens = [*models[0].loaded.target.encode(target), models[0].loaded.model.eos_id]
    return total[range(len(tokens)), tokens]


def test_an_ensemble_says_the_mean_of_what_its_members_say(some: tuple[Path, ...], sentences: list[str]) -> None:
    together, alone = Translator(some), [Translator(path) for path in some]
    for text, target in zip(sentences[:5], sentences[5:10], strict=True):
        (answer,) = together.score([text], [target])
        np.testing.assert_allclose(answer.token_scores, mean(alone, text, target), rtol=0, atol=TOLERANCE)
        without = mean(alone[:-1], text, target)
        assert np.abs(np.array(answer.token_scores) - without).max() > 100 * TOLERANCE


@pytest.mark.parametrize("output_layer", ["exact", "scan"])
def test_the_truths_hold(some: tuple[Path, ...], sentences: list[str], output_layer: str) -> None:
    options, texts = OPTIONS | {"output_layer": output_layer, "num_hypotheses": 4, "beam_size": 4}, sentences[:25]
    translator = Translator(some)
    together = translator.translate(texts, **options)
    assert len({t.text for t in together}) > len(texts) // 2
    assert [translator.translate([text], **options)[0] for text in texts] == together
    assert translator.translate(texts, schedule="stream", **options) == together
    assert Translator(some, machine=MachineOptions(threads=2)).translate(texts, **options) == together
    ended = [(t.source, h) for t in together for h in t.hypotheses if len(h.token_scores) > len(h.tokens)]
    again = [(s, h) for s, h in ended if translator.loaded.target.encode(h.text) == [*_ids(translator, h.tokens)]]
    assert len(again) > 5
    scored = translator.score([s for s, _ in again], [h.text for _, h in again], output_layer=output_layer)
    for own, (_, searched) in zip(scored, again, strict=True):
        if output_layer == "exact":
            assert own.token_scores == searched.token_scores
        assert own.token_scores == pytest.approx(
            searched.token_scores, abs=1e-2
        )  # beams take other sums of some rows of a scan


def _ids(translator: Translator, pieces: Sequence[str]) -> list[int]:
    of = {translator.loaded.target.piece(i): i for i in range(200)}
    return [of[piece] for piece in pieces]


def test_a_model_with_itself_is_that_model(members: tuple[Path, ...], sentences: list[str]) -> None:
    one = Translator(members[1]).translate(sentences[:20], **OPTIONS)
    two = Translator([members[1], members[1]]).translate(sentences[:20], **OPTIONS)
    assert [t.text for t in two] == [t.text for t in one]
    np.testing.assert_allclose([t.score for t in two], [t.score for t in one], rtol=0, atol=20 * TOLERANCE)


def test_attention_is_the_mean(members: tuple[Path, ...], sentences: list[str]) -> None:
    options = OPTIONS | {"return_attention": True}
    alone = Translator(members[0]).translate(sentences[:5], **options)
    twice = Translator([members[0], members[0]]).translate(sentences[:5], **options)
    mixed = Translator(members).translate(sentences[:5], **options)
    for one, two, three in zip(alone, twice, mixed, strict=True):
        np.testing.assert_allclose(two.hypotheses[0].attention, one.hypotheses[0].attention, rtol=0, atol=1e-5)
        np.testing.assert_allclose(np.sum(three.hypotheses[0].attention, axis=1), 1, rtol=0, atol=1e-5)


def test_a_plus_stands_for_a_list(members: tuple[Path, ...], sentences: list[str]) -> None:
    names = "+".join(map(str, members))
    assert Translator(names).translate(sentences[:5]) == Translator(list(members)).translate(sentences[:5])


def test_members_with_other_vocabularies_are_refused(
    members: tuple[Path, ...], tmp_path: Path, sentences: list[str]
) -> None:
    other = train_sentencepiece(sentences[:100], "other.spm", size=200, coverage=1.0, seed=1)
    (tmp_path / "other.spm").write_bytes(other)
    other = save(tmp_path / "other", read_config(members[0]), 5, (tmp_path / "other.spm").read_bytes())
    with pytest.raises(ModelError, match=r"cube and .*other have different source vocabularies"):
        Translator([members[0], other])
    with pytest.raises(ModelError, match="list of models is empty"):
        Translator([])
    with pytest.raises(ModelError, match="no model 'nowhere'"):
        Translator([members[0], "nowhere"])


def test_an_output_layer_that_is_fitted_to_one_model_is_refused(
    members: tuple[Path, ...], sentences: list[str]
) -> None:
    with pytest.raises(OptionError, match=r"output_layer is 'shortlist'; it must be exact or scan for an ensemble"):
        Translator(members).translate(sentences[:1], output_layer="shortlist")
