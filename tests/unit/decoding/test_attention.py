"""Attention of answers: a row for each token, the same however it is asked, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sharpbeam import MachineOptions, OptionError, Translator
from sharpbeam.decoding.inputs import encode_texts
from sharpbeam.decoding.results import Answer
from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.models.native import NativeModel
from sharpbeam.options.decode import DecodeOptions

OPTIONS = {"beam_size": 4, "num_hypotheses": 3, "max_length": 12}


def without(translations):
    """The same translations without attention."""
    return [
        replace(t, source_tokens=(), hypotheses=tuple(replace(h, attention=None) for h in t.hypotheses))
        for t in translations
    ]


def test_one_row_for_each_token_and_nothing_else_changes(tiny_model, sentences: list[str]) -> None:
    texts = [*sentences[:40], "", " ".join(sentences[40:44])]
    translator = Translator(tiny_model)
    plain = translator.translate(texts, **OPTIONS)
    assert all(h.attention is h.alignment is None for t in plain for h in t.hypotheses) and plain[0].attention is None
    answers = translator.translate(texts, return_attention=True, **OPTIONS)
    assert without(answers) == plain
    assert answers[40].attention == answers[40].alignment == answers[40].source_tokens == ()
    ended = set()
    for text, translation in zip(texts, answers, strict=True):
        assert "".join(translation.source_tokens).replace("▁", " ").strip() == text
        for h in translation.hypotheses:
            ended.add(len(h.token_scores) - len(h.tokens))
            assert len(h.attention) == len(h.token_scores)
            assert {len(row) for row in h.attention} <= {len(translation.source_tokens) + 1}
            np.testing.assert_allclose([sum(row) for row in h.attention], 1, rtol=0, atol=1e-6)
    assert ended == {0, 1}  # hypotheses with eos and without


def test_it_is_the_attention_of_the_model_after_these_tokens(tiny_model, sentences: list[str]) -> None:
    translator = Translator(tiny_model)
    (answers,) = translator.translate(sentences[:1], return_attention=True, max_length=12)
    model, source = translator.loaded.model, translator.loaded.source
    (encoded,) = encode_texts(translator.loaded, sentences[:1], None, DecodeOptions())
    run, request = translator.loaded.model.open(), encoded.request
    state, token = run.admit([request]), model.bos_id
    pieces = {source.piece(i): i for i in range(200)}
    for row, following in zip(answers.attention, [*answers.tokens, None], strict=False):
        weights, state = run.attend(np.zeros(1, np.int32), state, np.array([token], np.int32))
        assert row == tuple(weights[0].tolist())
        token = pieces[following] if following is not None else model.eos_id


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"return_alternatives": True},
        {"sampling": True, "beam_size": 5, "seed": 2},
        {"cube_pruning": "approximate"},
        {"target_prefix": "Bade"},
    ],
    ids=lambda how: "-".join(how) or "beam",
)
def test_the_same_in_any_batch_order_schedule_and_number_of_threads(tiny_model, sentences, how) -> None:
    texts, options = sentences[:40], {**OPTIONS, "return_attention": True, **how}
    translator = Translator(tiny_model)
    expected = translator.translate(texts, **options)
    assert all(len(h.attention) == len(h.token_scores) for t in expected for h in t.hypotheses)
    assert translator.translate(texts[3:4], **options)[0] == expected[3]
    threads = Translator(tiny_model, machine=MachineOptions(threads=3))
    assert threads.translate(texts, schedule="stream", max_rows=30, **options) == expected
    assert threads.translate(texts[::-1], batch_tokens=60, **options)[::-1] == expected


def test_pytorch_says_the_same(tiny_model, sentences: list[str]) -> None:
    pytest.importorskip("torch")
    native = Translator(tiny_model).translate(sentences[:6], return_attention=True, max_length=12)
    from support.torch_model import torch_translator

    torch = torch_translator(tiny_model)
    for a, b in zip(native, torch.translate(sentences[:6], return_attention=True, max_length=12), strict=True):
        assert a.tokens == b.tokens
        np.testing.assert_allclose(a.attention, b.attention, rtol=0, atol=1e-4)


def test_alignment_is_the_largest_share_of_a_word() -> None:
    rows = ((0.2, 0.7, 0.1), (0.4, 0.4, 0.2), (0.2, 0.2, 0.6), (0.0, 1.0, 0.0))
    answer = Answer("", 0.0, 0.0, ("a", "b", "c"), (0.0,) * 4, rows)  # two source tokens and eos; the last row is eos
    assert answer.alignment == ((1, 0), (0, 1))


def test_a_model_without_attention_is_refused(tiny_model) -> None:
    config = LstmLmConfig(vocab_size=9, embedding_dim=4, layers=1, hidden_dim=4)
    model = NativeModel(config, {name: np.zeros(shape, np.float32) for name, shape in config.tensor_shapes().items()})
    with pytest.raises(
        OptionError, match="return_attention is given; it must be left out for a model without attention"
    ):
        replace(Translator(tiny_model).loaded, model=model).check(DecodeOptions.of(return_attention=True))
