"""A head in the place of a Hugging Face model's lm_head: the same tokens, and a model as before after it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from sharpbeam import Head, InputError, ModelError, OptionError  # noqa: E402
from sharpbeam.api.attached import logits_of  # noqa: E402
from sharpbeam.fit.preview import find_preview  # noqa: E402
from sharpbeam.output_layers.exact import ExactLayer  # noqa: E402
from sharpbeam.storage.artifacts import FolderArtifacts  # noqa: E402
from sharpbeam.types import TopK  # noqa: E402

VOCAB = 211


def causal(**facts: Any) -> Any:
    torch.manual_seed(1)
    config = transformers.Qwen3Config(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        initializer_range=0.3,
        tie_word_embeddings=True,
        **facts,
    )
    return transformers.Qwen3ForCausalLM(config).eval()


def encoder_decoder() -> Any:
    torch.manual_seed(2)
    config = transformers.MarianConfig(
        vocab_size=VOCAB,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        pad_token_id=0,
        eos_token_id=2,
        decoder_start_token_id=0,
        init_std=0.4,
        max_position_embeddings=64,
    )
    model = transformers.MarianMTModel(config).eval()
    model.final_logits_bias = torch.linspace(-1, 1, VOCAB).reshape(1, -1)
    return model


PROMPTS = torch.tensor([[1, 5, 9], [1, 17, 200], [1, 3, 44]])
CALLS: list[dict[str, Any]] = [
    {},
    {"num_beams": 4},
    {"num_beams": 3, "length_penalty": 2.0, "num_return_sequences": 2, "early_stopping": True},
    {"do_sample": True, "top_k": 20, "temperature": 0.7},
    {"do_sample": True, "top_k": 50, "top_p": 0.8},
    {"min_new_tokens": 8},
    {"suppress_tokens": list(range(3, 60)), "num_beams": 2},
]


@pytest.mark.parametrize("make", [causal, encoder_decoder])
@pytest.mark.parametrize("options", CALLS, ids=str)
def test_generate_returns_the_tokens_of_the_model_alone(make: Any, options: dict[str, Any]) -> None:
    model, options = make(), {"max_new_tokens": 12, "do_sample": False, **options}
    torch.manual_seed(7)
    alone = model.generate(PROMPTS, **options)
    with Head.attach(model) as attached:
        torch.manual_seed(7)
        assert torch.equal(model.generate(PROMPTS, **options), alone)
        assert attached.stats.head_rows > 0
    assert "generate" not in vars(model)


@pytest.mark.parametrize(
    "options",
    [
        {"repetition_penalty": 1.5},
        {"no_repeat_ngram_size": 2, "num_beams": 2},
        {"do_sample": True, "top_k": 0, "top_p": 0.9},
        {"output_scores": True, "return_dict_in_generate": True},
    ],
    ids=str,
)
def test_what_needs_every_score_goes_through_the_models_own_matrix(options: dict[str, Any]) -> None:
    model, options = causal(), {"max_new_tokens": 6, "do_sample": False, **options}

    def tokens() -> Any:
        torch.manual_seed(3)
        answer = model.generate(PROMPTS, **options)
        return getattr(answer, "sequences", answer)

    alone = tokens()
    with Head.attach(model) as attached:
        assert torch.equal(tokens(), alone)
        assert attached.stats.head_rows == 0 and attached.stats.original_rows > 0


def test_settings_of_the_model_and_of_a_given_config_count() -> None:
    model = causal()
    model.generation_config.repetition_penalty = 1.2
    with Head.attach(model) as attached:
        model.generate(PROMPTS, max_new_tokens=2, do_sample=False)
        assert attached.stats.head_rows == 0
        settings = transformers.GenerationConfig(repetition_penalty=1.0, num_beams=2, max_new_tokens=2, pad_token_id=0)
        model.generate(PROMPTS, generation_config=settings)
        assert attached.stats.head_rows > 0


def test_the_model_alone_is_as_it_was() -> None:
    model = causal()
    before = model(input_ids=PROMPTS).logits
    attached = Head.attach(model)
    assert torch.equal(model(input_ids=PROMPTS).logits, before)
    attached.detach()
    attached.detach()
    model.generate(PROMPTS, max_new_tokens=2)
    assert attached.stats.head_rows == 0
    with attached:
        model.generate(PROMPTS, max_new_tokens=2, do_sample=False)
    assert attached.stats.head_rows == 3 * 2
    assert torch.equal(model(input_ids=PROMPTS).logits, before)


def test_the_logits_are_a_distribution_with_the_exact_best() -> None:
    draw = np.random.default_rng(0)
    weight, hidden = draw.normal(size=(50, 8)).astype(np.float32), draw.normal(size=(20, 8)).astype(np.float32)
    exact = ExactLayer.build(weight, np.zeros(50, np.float32))
    whole = exact.topk(hidden, 50)
    for k in (1, 4, 49):
        best = exact.topk(hidden, k)
        logits = logits_of(best, 50)
        normalizer = np.logaddexp.reduce(logits.astype(np.float64), axis=1)
        assert np.allclose(normalizer, 0, atol=1e-5)
        assert (np.argsort(-logits, axis=1, kind="stable")[:, :k] == whole.token[:, :k]).all()
    few = TopK(np.array([[-0.1, -2.5, -np.inf]], np.float32), np.array([[0, 5, 0]], np.int32))
    assert logits_of(few, 50).argmax() == 0  # a row of two candidates is filled with token 0
    even = np.zeros((1, 8), np.float32)  # every token is as likely: the chosen one still stands out
    best = exact.topk(even, 1)
    assert logits_of(best, 50).argmax() == best.token[0, 0]


def test_a_fitted_preview_finds_the_same_tokens(tmp_path: Path) -> None:
    for make in (causal, encoder_decoder):
        model, folder = make(), tmp_path / make.__name__
        folder.mkdir()
        weight, bias = model.lm_head.weight.detach().numpy(), np.zeros(VOCAB, np.float32)
        if make is encoder_decoder:
            bias = model.final_logits_bias.numpy()[0]
        hidden = np.random.default_rng(3).normal(size=(300, 32)).astype(np.float32)
        FolderArtifacts(folder, weight, bias).save("preview", find_preview(weight, bias, hidden), {})
        alone = model.generate(PROMPTS, max_new_tokens=12, do_sample=False)
        with Head.attach(model, "preview", folder) as attached:
            assert torch.equal(model.generate(PROMPTS, max_new_tokens=12, do_sample=False), alone)
            assert attached.stats.head_rows > 0
    with pytest.raises(ModelError):
        Head.attach(causal(), "preview", tmp_path / "encoder_decoder")


def test_what_cannot_be_attached_is_refused_by_name() -> None:
    model = causal()
    with pytest.raises(InputError, match=r"causal language model or encoder-decoder"):
        Head.attach(torch.nn.Linear(3, 4))
    with pytest.raises(OptionError, match=r"need the `folder` of a fit"):
        Head.attach(model, "preview")
    attached = Head.attach(model)
    with pytest.raises(InputError, match=r"attached already"):
        Head.attach(model)
    attached.detach()
    config = transformers.Gemma2Config(
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=16,
        final_logit_softcapping=30.0,
    )
    with pytest.raises(InputError, match=r"scales or caps"):
        Head.attach(transformers.Gemma2ForCausalLM(config).eval())
