# ruff: noqa: RUF001 (Turkish and Greek letters)
"""Letter case of sentences, and numbers."""

from __future__ import annotations

import pytest

from sharpbeam.text.case import abbreviation, case_of, known_names, lower, outside, titled, upper
from sharpbeam.text.flags import lost_numbers

NAMES = {"Paris", "Tom", "NATO", "Berlin", "Merkel"}


def pieces(word: str) -> int:
    """A vocabulary of lower-case words and names."""
    is_name = word in NAMES or (word.islower() and not {word.title(), word.upper()} & NAMES)
    return 1 if is_name else 3


def spelled(text: str, language: str = "en") -> tuple[str, str] | None:
    case = case_of(text, text, language, pieces)
    return case and (case.name, case.text)


def test_capitals_are_spelled_as_usual() -> None:
    assert spelled("TOM SAW PARIS, NATO SAID.") == ("upper", "Tom saw Paris, NATO said.")
    assert spelled("WARNING!") == ("upper", "Warning!")
    assert spelled("ВОЙНА И МИР", "ru") == ("upper", "Война и мир")


def test_titles_and_words_in_capitals() -> None:
    assert spelled("The Old Man Visits Paris") == ("title", "The old man visits Paris")
    assert spelled("A Man From NATO O'Neill Knows Sleeps") == ("title", "A man from NATO O'Neill knows sleeps")
    assert spelled("Novas Regras para Turistas e Lojas", "pt") == ("title", "Novas regras para turistas e lojas")
    assert spelled("Novas Regras para Turistas e Lojas", "") == ("title", "Novas regras para turistas e lojas")
    assert spelled("The Man of the House Sleeps") == ("title", "The man of the house sleeps")
    assert spelled("He said STOP IT RIGHT NOW and left.") == ("words", "He said stop it right now and left.")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "One two.",
        "NATO",
        "USA",
        "I saw NATO and the BBC.",
        "Tom Merkel, Paris",
        "The old Man sleeps",
        "Tom and Ana went home with Paris",
        "Guten Morgen",
        "中文",
    ],
)
def test_usual_case_is_left_alone(text: str) -> None:
    assert spelled(text) is None


def test_a_small_word_of_a_title_cannot_be_a_name() -> None:
    text = "Old Man Sleeps over Houses"
    case = case_of(text, text, "en", lambda word: 1.0)
    assert case is not None and "over" not in [text[start:end] for start, end in case.words]


def test_letters_that_stay_small_in_a_title() -> None:
    assert spelled("The 4th Man Sleeps in 1990s Houses") == ("title", "The 4th man sleeps in 1990s houses")
    assert spelled("The 4Th Man Sleeps at 5 P.M. in Paris") == ("title", "The 4th man sleeps at 5 p.m. in Paris")
    assert titled("o 4th e 5g às 10h", False, "pt") == "O 4th E 5g Às 10h"


def test_an_abbreviation_keeps_its_small_s() -> None:
    assert abbreviation("bbc's", "en", lambda word: float(word != "BBC's")) == "BBC's"
    assert abbreviation("gas", "en", lambda word: 1.0) == "GAS"


def test_a_list_says_how_often_a_word_is_a_name() -> None:
    names = known_names("en")
    assert names["paris"] == ("Paris", 3) and names["usa"] == ("USA", 3) and names["university"][1] == 3
    assert names["academy"][1] == 2 and names["act"][1] == 1 and not {"tables", "men", "it"} & names.keys()
    assert not known_names("pt") and not known_names("../en")


def test_german_nouns_are_no_title() -> None:
    assert spelled("Liebe ist wie Luft zum Atmen", "de") is None
    assert spelled("Guten Morgen, Tom Merkel", "de") is None
    assert spelled("Das Haus Steht in Berlin", "de") is None  # two of which may be nouns
    assert spelled("Das Haus Steht Jetzt In Berlin", "de") == ("title", "Das haus steht jetzt in Berlin")


def test_letters_of_languages() -> None:
    assert upper("iyi ışık", "tr") == "İYİ IŞIK"
    assert lower("İYİ IŞIK", "tur_Latn") == "iyi ışık"
    assert upper("Straße", "de") == "STRASSE"
    assert upper("Καλημέρα", "el") == "ΚΑΛΗΜΕΡΑ"
    assert lower("ΟΔΟΣ", "el") == "οδος"


def test_titles_and_what_is_fixed() -> None:
    assert titled("O homem da casa dorme", True, "pt") == "O Homem da Casa Dorme"
    assert titled("o homem da casa", False, "pt") == "O Homem Da Casa"
    assert titled("um rei para a casa que é sua", True, "pt") == "Um Rei para a Casa que É Sua"
    assert outside("veja x.com e {n}", ["x.com", "{n}"], str.upper) == "VEJA x.com E {n}"


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        ("1,000.5 men", "1.000,5 homens"),
        ("1,250.75 of version 1.2.3", "1250,75 da versão 1.2.3"),
        ("1,250.75 or 1 250,75", "1 250,75 ou 1.250,75"),
        ("20,000 men", "20 mil homens"),
        ("at 5 p.m. on 3:30", "17h, 3h30"),
        ("in 2019", "em ٢٠١٩"),
        ("the 21st century", "século XXI"),
        ("2 and 2", "2 vezes"),
    ],
)
def test_numbers_in_another_form_are_there(source: str, answer: str) -> None:
    assert lost_numbers(source, answer) == []


def test_lost_numbers_are_found() -> None:
    assert lost_numbers("He has 2 dogs and 34 cats.", "Ele tem 3 cães e 2 gatos.") == [(18, 20)]
    assert lost_numbers("1.5 and 2019", "15 e 2018") == [(8, 12)]
    assert lost_numbers("It is 1,250.75 meters", "São 1.250.75 metros") == [(6, 14)]  # a hundred times as much
    assert lost_numbers("Es sind 1.250,75 Meter", "It is 1,250,75 meters") == [(8, 16)]
