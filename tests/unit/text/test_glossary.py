"""Glossaries: where terms are found, and which of them a translation lacks."""

from __future__ import annotations

from typing import Any

import pytest

from sharpbeam import InputError
from sharpbeam.text.glossary import Glossary, lacking


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Das Haus am See.", ["Haus", "See"]),
        ("Hausboot, seen", []),  # whole words only
        ("Das haus; the SEE", []),  # as they are written
        ("NACHT und Nacht", ["nacht", "nacht"]),  # lower case: in any case
        ("ein rotes Haus", ["rotes Haus"]),  # the longest
        ("rotes  Haus", ["Haus"]),
        ("C++ ist C", ["C++"]),
        ("我的家很大", ["家"]),  # no spaces, no words
        ("", []),
    ],
)
def test_terms_are_found_in_whole_words(text: str, expected: list[str]) -> None:
    glossary = Glossary({term: term.upper() for term in ("Haus", " See ", "nacht", "rotes Haus", "C++", "家", " ")})
    result = glossary.find(text)
    assert [term.forms for term in result] == [(term.upper(),) for term in expected]
    assert [text[term.start : term.end].lower() for term in result] == [term.lower() for term in expected]


def test_a_translation_lacks_the_terms_that_it_has_no_form_of() -> None:
    terms = Glossary({"Haus": ["home", "house"], "See": "lake"}).find("Haus am See, Haus")
    assert lacking(terms, "Home by the lake, and a house") == []
    assert lacking(terms, "homeless by the lakes") == terms
    assert [term.start for term in lacking(terms, "a house by a lake")] == [13]  # the second one
    assert lacking(Glossary({"Haus": "家"}).find("Haus"), "我的家很大") == []


@pytest.mark.parametrize(
    "terms", [["Haus"], "Haus", {"Haus": 1}, {"Haus": " "}, {"Haus": []}, {"Haus": ["a", 2]}, {1: "a"}]
)
def test_what_is_no_glossary_is_refused(terms: Any) -> None:
    with pytest.raises(InputError, match="glossary"):
        Glossary(terms)


@pytest.mark.parametrize("terms", [{"a" * 201: "b"}, {"a": "b" * 201}, {"a": ["b"] * 33}])
def test_overlong_terms_are_refused_in_short(terms: Any) -> None:
    with pytest.raises(InputError, match=r"at most (200|32)") as error:
        Glossary(terms)
    assert len(str(error.value)) < 200


def test_no_terms_are_no_glossary() -> None:
    assert Glossary.of(None) is None
    assert Glossary.of({}) is None
    assert Glossary.of({" ": "a"}) is None
