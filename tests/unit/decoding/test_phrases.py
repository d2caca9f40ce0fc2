"""A glossary in translation: its terms are in the answers, whatever else is decoded."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from sharpbeam import InputError, OptionError, Translator
from sharpbeam.text.glossary import Glossary, lacking

GLOSSARY = Glossary({"balo": "mike nodi", "Lu": ["ka", "dune"], "x.": "bo"})


def holds_terms(text: str, translation: str) -> bool:
    return not lacking(GLOSSARY.find(text), translation)


@pytest.fixture
def texts(sentences: list[str]) -> list[str]:
    return ["Balo.", *sentences[:4], "Lu balo, balo.", "", "Ein x. lu Lu"]


@pytest.mark.parametrize("options", [{}, {"beam_size": 1}, {"beam_size": 1, "return_scores": False}])
@pytest.mark.parametrize("output_layer", ["exact", "scan"])
def test_answers_have_the_terms_of_their_text(tiny_model: Path, texts: list[str], options, output_layer) -> None:
    translator = Translator(tiny_model, max_length=40, output_layer=output_layer, **options)
    plain = translator.translate(texts)
    results = translator.translate(texts, glossary=GLOSSARY)
    flags = [bool(GLOSSARY.find(text)) for text in texts]
    assert sum(flags) == 3
    for text, before, after, terms in zip(texts, plain, results, flags, strict=True):
        assert holds_terms(text, after.text)
        assert terms or after.tokens == before.tokens
    assert not all(holds_terms(text, before.text) for text, before in zip(texts, plain, strict=True))
    alone = [translator.translate([text], glossary=GLOSSARY)[0] for text in texts]
    assert [each.tokens for each in alone] == [each.tokens for each in results]


def test_a_session_takes_a_glossary(tiny_model: Path, texts: list[str]) -> None:
    translator = Translator(tiny_model, max_length=40)
    expected = translator.translate(texts, glossary=GLOSSARY)
    with translator.session() as session:
        handles = [session.submit(text, glossary=GLOSSARY) for text in texts]
        plain = session.submit(texts[0])
        assert [handle.result() for handle in handles] == expected
        assert plain.result() == translator.translate(texts[:1])[0]


def test_other_answers_have_the_terms_too(tiny_model: Path) -> None:
    translator = Translator(tiny_model)
    (results,) = translator.translate(["Lu balo."], glossary=GLOSSARY, num_hypotheses=4, max_length=40)
    assert len(results.hypotheses) > 1
    assert all(holds_terms("Lu balo.", answer.text) for answer in results.hypotheses)
    (others,) = translator.translate(
        ["Lu balo."], glossary=GLOSSARY, num_hypotheses=3, return_alternatives=True, max_length=40
    )
    assert all(holds_terms("Lu balo.", answer.text) for answer in others.hypotheses)
    (prefixed,) = translator.translate(["Lu."], glossary=GLOSSARY, target_prefix="Ka", max_length=40)
    assert prefixed.text.startswith("Ka")  # a form with a capital letter is in the prefix already


def test_what_the_vocabulary_cannot_write_is_said(tiny_model: Path, caplog: pytest.LogCaptureFixture) -> None:
    translator = Translator(tiny_model)
    with caplog.at_level(logging.WARNING, "sharpbeam"):
        results = translator.translate(["Balo.", "Balo balo."], glossary={"balo": "Ω", "mi": "ka"})
    assert [record.getMessage() for record in caplog.records] == [
        "the vocabulary cannot write 'Ω' of the glossary; it is left out"
    ]
    assert results == translator.translate(["Balo.", "Balo balo."])


def test_a_text_requires_a_bounded_number_of_tokens(tiny_model: Path, caplog: pytest.LogCaptureFixture) -> None:
    form = "mike nodi " * 19
    with caplog.at_level(logging.WARNING, "sharpbeam"):
        translator = Translator(tiny_model, max_length=40)
        translator.translate(["balo " * 200], raw=True, glossary={"balo": form}, max_input_length=0)
    (message,) = [record.getMessage() for record in caplog.records if "may require" in record.getMessage()]
    assert message.endswith("terms of the glossary are left out: a text may require 1000 tokens")
    assert 150 < int(message.split()[0]) < 200


@pytest.mark.parametrize(
    "options",
    [
        {"sampling": True},
        {"cube_pruning": "exact"},
        {"finishing": "stay"},
        {"target_prefix": "a", "prefix_bias_beta": 0.5},
    ],
)
def test_what_a_glossary_cannot_go_with_is_refused(tiny_model: Path, options) -> None:
    (name,) = set(options) - {"target_prefix"}
    with pytest.raises(OptionError, match=f"{name} is .* with a glossary"):
        Translator(tiny_model).translate_iter(["Balo."], glossary=GLOSSARY, **options)
    with pytest.raises(InputError, match="give a translation"):
        Translator(tiny_model).translate_iter(["Balo."], glossary={"a": 1})
