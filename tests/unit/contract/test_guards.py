"""Guards: what is found, what is decoded again, and what is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.decoders import Decoder, answer, run, same

from sharpbeam.contract.guards import check_translation, guarded_steps
from sharpbeam.contract.sentences import Contract
from sharpbeam.decoding.results import EMPTY, Translation
from sharpbeam.documents import document_steps, read_document
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.text.glossary import Glossary

SOURCE = "The first part is here, and the second part is there."


def flags(translation: Translation) -> tuple[str, ...]:
    return check_translation(translation).flags


def test_a_sound_translation_has_no_flag() -> None:
    assert flags(answer(SOURCE, "A primeira parte x, e a segunda parte y e z.")) == ()
    assert flags(answer("ha ha ha ha", "he he he he")) == ()
    assert flags(answer("Tom Smith, Paris", "Tom Smith, Paris")) == ()


def test_an_omission_is_found_and_placed() -> None:
    verdict = check_translation(answer(SOURCE, "A primeira parte esta aqui,"))
    assert verdict.flags == ("omission",)
    start, end = verdict.lost
    assert SOURCE[start:end] == "and the second part is there"
    assert verdict.missing == pytest.approx(6.0)
    # Two words without attention are too many, one is not.
    order = [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert flags(answer(SOURCE, "aaa bbb ccc ddd eee fff ggg hhh iii", order)) == ("omission",)
    assert flags(answer(SOURCE, "aaa bbb ccc ddd eee fff ggg hhh iii jjj", [*order, 9])) == ()


@pytest.mark.parametrize(
    "text", ["no " * 5, "a b c a b c a b c", "in-in-in-in-in-in", "x " + "one two three four " * 3]
)
def test_loops_are_found(text: str) -> None:
    source = " ".join("abcdefghijklm")
    order = [at % 13 for at in range(len(text.split()))]
    assert "loop" in flags(answer(source, text, order))


def test_copies_and_cut_answers_are_found() -> None:
    assert "copy" in flags(answer(SOURCE, SOURCE))
    whole = answer("one two", "um dois")
    assert flags(whole) == ()
    cut = replace(whole.hypotheses[0], token_scores=whole.hypotheses[0].token_scores[:-1])
    assert flags(replace(whole, hypotheses=(cut,))) == ("cut",)
    assert flags(replace(whole, truncated=True)) == ("cut",)


def loses_the_rest(source: str) -> Translation:
    """A decoder that stops after six words."""
    return answer(source, " ".join(foreign(word) for word in source.split()[:6]))


def foreign(text: str) -> str:
    """Other words, with the signs in their places."""
    return "".join(letter + "x" if letter.isalpha() else letter for letter in text)


def translated(text: str, decode: Decoder, guards: bool = True) -> tuple[str, tuple[str, ...], bool]:
    options = DocumentOptions(guards=guards, split_sentences=False)
    document = run(document_steps(read_document(text, "text"), options), decode)
    return document.content, document.sentences[0].flags, document.sentences[0].repaired


def test_a_lost_sentence_or_clause_is_decoded_again() -> None:
    two = "One two three four five six. Seven eight nine ten."
    assert translated(two, loses_the_rest) == (foreign(two), (), True)
    clauses = "one two three four five, six seven eight nine ten"
    assert translated(clauses, loses_the_rest) == (foreign(clauses), (), True)
    assert translated(two, loses_the_rest, guards=False) == (foreign("One two three four five six."), (), False)


def test_what_cannot_be_repaired_is_flagged() -> None:
    text = "one two three four five six seven eight nine ten"
    assert translated(text, loses_the_rest) == (foreign("one two three four five six"), ("omission",), False)


def test_another_hypothesis_is_taken_where_it_is_sound() -> None:
    def decode(source: str) -> Translation:
        sound = answer(source, foreign(source))
        return replace(same(source), hypotheses=(same(source).hypotheses[0], sound.hypotheses[0]))

    text = "one two three four five"
    assert translated(text, decode) == (foreign(text), (), True)


def test_no_answer_depends_on_the_package_that_tells_languages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sharpbeam.text.flags.is_other_language", lambda text, code: True)
    jobs: list[str] = []

    def decode(source: str) -> Translation:
        jobs.append(source)
        return answer(source, "Das Haus ist hier.")

    done = run(guarded_steps("The house is here.", [], Contract(target="pt")), decode)
    assert done.verdict.flags == ("language",) and jobs == ["The house is here."]


def test_without_attention_markup_and_other_guards_work() -> None:
    def decode(source: str) -> Translation:
        return Translation(source, (replace(EMPTY, text="no " * 6),))

    steps = document_steps(read_document("<p>one <b>two</b></p>", "html"), DocumentOptions(), attends=False)
    document = run(steps, decode)
    assert document.sentences[0].flags == ("loop",)
    assert "<b>" in document.content


def test_what_is_decoded_again_has_the_glossary_too() -> None:
    text = "One two three four five six. Seven eight nine ten."
    glossary = Glossary({"one": "um", "nine": "nove"})
    options = DocumentOptions(split_sentences=False)
    document = run(document_steps(read_document(text, "text"), options, glossary=glossary), loses_the_rest)
    assert document.content == foreign(text).replace(foreign("One"), "Um").replace(foreign("nine"), "nove")
    assert document.sentences[0].repaired
