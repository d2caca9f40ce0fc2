"""A source with tags of languages: what an answer attends to is told by the text alone, wherever the tag stands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sharpbeam import OptionError, Translator
from sharpbeam.decoding.attention import LEAST, of_text
from sharpbeam.decoding.inputs import encode_texts, requests_of
from sharpbeam.options.decode import DecodeOptions

LANGUAGES = {"languages": {"aa": 9, "bb": 10}, "source_language": "aa", "target_language": "bb"}
SHARES = np.array([[0.1, 0.2, 0.3, 0.4], [0.4, 0.1, 0.3, 0.2]], np.float32)


def test_columns_are_those_of_the_text_and_one_for_the_rest() -> None:
    assert of_text(SHARES, slice(0, -1)) is SHARES
    np.testing.assert_allclose(of_text(SHARES, slice(1, -1)), [[0.2, 0.3, 0.5], [0.1, 0.3, 0.6]], rtol=1e-6)
    np.testing.assert_allclose(of_text(SHARES, slice(0, -2)), [[0.1, 0.2, 0.7], [0.4, 0.1, 0.5]], rtol=1e-6)


@pytest.mark.parametrize("tag", ["none", "source", "target", "source-behind"])  # vocabulary: stored
def test_attention_alignment_and_coverage_are_those_of_the_text(
    make_transformer: Callable[..., Path], sentences: list[str], tag: str
) -> None:
    translator, text = Translator(make_transformer(source_tag=tag, **LANGUAGES)), sentences[0]
    options = {"max_length": 6, "beam_size": 4, "num_hypotheses": 4}
    (result,) = translator.translate([text], return_attention=True, **options)
    assert "".join(result.source_tokens).replace("▁", " ").strip() == text
    model, size = translator.loaded.model, len(result.source_tokens)
    before, after = (tag in ("source", "target")), (tag == "source-behind")  # vocabulary: stored
    (encoded,) = encode_texts(translator.loaded, [text], None, DecodeOptions())
    request = encoded.request
    assert request is not None
    assert len(request.source) == before + size + 1 + after
    weights, _ = (run := translator.loaded.model.open()).attend(
        np.zeros(1, np.int32), run.admit([request]), np.array([model.bos_id], np.int32)
    )
    assert result.attention is not None and result.alignment is not None
    assert result.attention[0][:-1] == tuple(weights[0][before : before + size].tolist())
    for hypothesis in result.hypotheses:
        assert hypothesis.attention is not None
        shares = np.array(hypothesis.attention, np.float32)
        assert shares.shape == (len(hypothesis.token_scores), size + 1)
        np.testing.assert_allclose(shares.sum(axis=1), 1, rtol=0, atol=1e-5)
    assert all(0 <= source < size for source, _ in result.alignment)
    (ranked,) = translator.translate([text], coverage_penalty=2.0, **options)
    totals = [np.array(h.attention, np.float32)[:, :size].sum(axis=0, dtype=np.float64) for h in result.hypotheses]
    expected = [
        h.score + 2.0 * np.log(np.clip(total, LEAST, 1)).sum()
        for h, total in zip(result.hypotheses, totals, strict=True)
    ]
    assert [h.score for h in ranked.hypotheses] == pytest.approx(sorted(expected, reverse=True))


def test_a_run_begins_with_the_language_as_a_translation_does(
    make_transformer: Callable[..., Path], sentences: list[str]
) -> None:
    translator = Translator(make_transformer(target_tag=True, **LANGUAGES))
    requests = requests_of(translator.loaded, ["", *sentences[:2]], DecodeOptions.of(max_length=6))
    assert [request.index for request in requests] == [1, 2]
    assert all(request.prefix is not None and request.prefix.token.tolist() == [10] for request in requests)


def test_where_sources_have_no_eos_none_is_counted(
    make_transformer: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    translator = Translator(make_transformer(source_eos=False))
    ids = translator.loaded.source.encode("ba di ko")
    for most in (1, len(ids) - 1, len(ids)):
        options = DecodeOptions.of(max_input_length=most)
        (encoded,) = encode_texts(translator.loaded, ["ba di ko"], None, options)
        assert encoded.request is not None
        assert encoded.request.source.tolist() == ids[:most] and encoded.truncated == (most < len(ids))
    assert "after the first 1 are cut off (max_input_length is 1)" in caplog.text
    assert translator.translate(["ba di ko"], max_input_length=1, max_length=3)[0].truncated


def test_tags_and_eos_take_their_positions(
    make_transformer: Callable[..., Path], caplog: pytest.LogCaptureFixture
) -> None:
    facts = {"source_tag": "source", "positions": "learned", "max_positions": 6}
    translator = Translator(make_transformer(**facts, **LANGUAGES))
    assert len(translator.loaded.source.encode("ba di ko " * 3)) > 4
    assert translator.defaults.search.max_length == 6
    (result,) = translator.translate(["ba di ko " * 3])
    assert result.truncated
    with pytest.raises(OptionError, match="max_length is 7; it must be at most 6"):
        translator.translate(["ba"], max_length=7)
    assert "after the first 4 are cut off (the model has positions for 6, of which eos and tags take 2)" in caplog.text


def test_what_every_source_and_every_translation_begins_with(make_transformer: Callable[..., Path]) -> None:
    """A tag follows both."""
    for facts, before, prefix in (
        ({}, [5], [6, 7]),
        ({"source_tag": "source", "target_tag": True, **LANGUAGES}, [5, 9], [6, 7, 10]),
    ):
        translator = Translator(make_transformer(source_begin=(5,), target_begin=(6, 7), **facts))
        ids, eos = translator.loaded.source.encode("ba di ko"), translator.loaded.model.eos_id
        (encoded,) = encode_texts(translator.loaded, ["ba di ko"], None, DecodeOptions())
        assert encoded.request is not None and encoded.request.prefix is not None
        assert encoded.request.source.tolist() == [*before, *ids, eos]
        assert encoded.request.prefix.token.tolist() == prefix
        (result,) = translator.translate(["ba di ko"], max_length=6)
        assert list(result.tokens[: len(prefix)]) == [translator.loaded.target.piece(token) for token in prefix]
        assert list(result.token_scores[: len(prefix)]) == [0.0] * len(prefix)


def test_a_target_language_that_is_not_named_or_cannot_be_chosen(make_transformer: Callable[..., Path]) -> None:
    codes = {"aa": 9, "bb": 10}
    chosen = Translator(make_transformer(source_tag="target", languages=codes))
    with pytest.raises(OptionError, match="target_language is missing; the model needs one of aa, bb"):
        chosen.translate(["ba di ko"])
    assert chosen.translate(["ba di ko"], target_language="aa", max_length=4)[0].text
    for default in ("", "bb"):
        fixed = Translator(make_transformer(source_tag="source", languages=codes, target_language=default))
        with pytest.raises(OptionError, match=r"target_language is 'aa'; it must be (left out|'bb', the only one)"):
            fixed.translate(["ba di ko"], source_language="aa", target_language="aa")
        assert fixed.translate(["ba di ko"], source_language="aa", max_length=4)[0].text
