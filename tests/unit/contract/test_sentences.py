"""Sentences: what their case, numbers, terms and language tags do."""

from __future__ import annotations

import re

import pytest
from support.decoders import Decoder, answer, foreign, run

from sharpbeam.contract.lines import line_steps
from sharpbeam.contract.sentences import Contract
from sharpbeam.decoding.results import Translation
from sharpbeam.text.glossary import Glossary


def line(text: str, decode: Decoder) -> str:
    return run(line_steps(text, Contract()), decode).text


@pytest.mark.parametrize(
    ("term", "text"),
    [
        ("ACME", "THE ACME COMPANY OPENS A STORE"),
        ("Board Of Directors", "The Board Of Directors Meets Today"),
        ("Node.js", "We use Node.js for it."),
    ],
)
def test_terms_of_a_glossary_are_decoded_as_they_are_written(term: str, text: str) -> None:
    jobs: list[str] = []

    def decode(source: str) -> Translation:
        jobs.append(source)
        return answer(source, foreign(source))

    run(line_steps(text, Contract(glossary=Glossary({term: "x"}))), decode)
    assert term in jobs[0]
    jobs.clear()
    run(line_steps(text, Contract()), decode)
    assert term not in jobs[0], "the text is decoded as it is without a glossary too"


def test_a_line_may_name_the_language_of_all_its_sentences() -> None:
    steps = line_steps(">>fra<< Hello there, my friend. How are you?", Contract(tags=["fra"]))
    jobs = next(steps)
    assert [(job.text, job.changes["target_language"]) for job in jobs] == [
        ("Hello there, my friend.", "fra"),
        ("How are you?", "fra"),
    ]
    for text in (">>deu<< Hello.", ">>fra<< One.\n>>deu<< Two."):
        jobs = next(line_steps(text, Contract(tags=["fra"])))
        assert " ".join(job.text for job in jobs) == text.replace("\n", " ")


def test_a_little_word_is_in_capitals_only_for_a_word_of_its_own() -> None:
    def decode(source: str) -> Translation:
        return answer(source, "por leia favor o livro agora", [1, 1, 0, 2, 3, 4])

    assert line("please READ THE BOOK now", decode) == "por LEIA favor O LIVRO agora"
    assert line("please READ THE BOOK now", lambda source: answer(source, "", [])) == ""
    between = [1, 1, 1, 2, 3, 4]  # "a" is between two words of its source word
    assert line("please READ THE BOOK now", lambda source: answer(source, "ler leia a o livro agora", between)) == (
        "ler LEIA A O LIVRO agora"
    )


def test_a_number_does_not_come_back_without_its_brackets() -> None:
    def decode(source: str) -> Translation:
        return answer(source, foreign(re.sub(r"\(|\S*\d\S*\)?", "", source)))

    translation = run(line_steps("It is far (190 miles) from here.", Contract()), decode)
    assert translation.flags == ("number",) and "190" not in translation.text
