"""Terms of a glossary: they are in the answers, in the place of the words that they replace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from sharpbeam import InputError, OptionError, Translator
from sharpbeam.contract.steps import Job
from sharpbeam.contract.terms import term_steps
from sharpbeam.decoding.inputs import Forced
from sharpbeam.decoding.results import Answer, Translation
from sharpbeam.text.glossary import Glossary, article_forms, lacking

GLOSSARY = Glossary({"balo": "mike nodi", "Lu": ["ka", "dune"], "x.": "bo"})


def holds_terms(text: str, translation: str) -> bool:
    return not lacking(GLOSSARY.find(text), translation)


@pytest.fixture
def texts(sentences: list[str]) -> list[str]:
    return ["Balo.", *sentences[:4], "Lu balo, balo.", "", "Ein x. lu Lu"]


@pytest.mark.parametrize("options", [{}, {"beam_size": 1}, {"beam_size": 1, "return_scores": True}])
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
        assert after.token_scores or not before.token_scores
    assert not all(holds_terms(text, before.text) for text, before in zip(texts, plain, strict=True))
    alone = [translator.translate([text], glossary=GLOSSARY)[0] for text in texts]
    assert [each.tokens for each in alone] == [each.tokens for each in results]


def test_other_answers_have_the_terms_too(tiny_model: Path) -> None:
    translator = Translator(tiny_model)
    (results,) = translator.translate(["Lu balo."], glossary=GLOSSARY, num_hypotheses=4, max_length=40)
    assert len(results.hypotheses) > 1
    assert all(holds_terms("Lu balo.", answer.text) for answer in results.hypotheses)


def test_what_the_vocabulary_cannot_write_takes_the_place_of_words(tiny_model: Path) -> None:
    translator = Translator(tiny_model)
    (plain,) = translator.translate(["Balo."])
    (result,) = translator.translate(["Balo."], glossary={"balo": "Ω"})
    assert "Ω" in result.text and result.text != plain.text
    text = "balo " * 200
    (many,) = translator.translate([text], raw=True, glossary={"balo": "mike nodi"}, max_length=40)
    assert many.text.lower().count("mike nodi") == 200


SOURCE, PLAIN = ["the", "word", "ends"], ["a", "palavra", "acaba"]


RIGHT = {("o", "nome"): -1.0, ("a", "palavra"): -0.1, ("os", "nome"): -0.01}  # articles that a noun has


def said(job: Job, several: list[list[str]]) -> Translation:
    """Answers of these words with their scores and attention."""
    given = len(job.begin.text[: job.begin.given].split()) if job.begin else 0
    answers = []
    for each in several:
        scores = [0.0 if n < given else RIGHT.get((each[max(n - 1, 0)], word), -4.0) for n, word in enumerate(each)]
        attention = tuple(tuple(row) for row in np.eye(len(each) + 1, 4))
        total, tokens = sum(scores), tuple(f"\u2581{word}" for word in each)
        answers.append(Answer(" ".join(each), total / len(each), total, tokens, (*scores, 0.0), attention))
    return Translation(job.text, tuple(answers), source_tokens=tuple(f"\u2581{word}" for word in SOURCE))


def answered(job: Job) -> Translation:
    """A decoder that knows which article a noun has, and says the old noun again where it likes it best."""
    begin = job.begin.text.split() if job.begin else []
    words = [*begin, *PLAIN[len(begin) :]]
    return said(job, [["os", "nome", "palavra", "acaba"] if words == ["os", "nome", "acaba"] else words])


def stubborn(job: Job) -> Translation:
    """The same, but it continues with the old noun after every article."""
    begin = job.begin.text.split() if job.begin else []
    again = begin[-1:] and begin[-1].lower() == "nome"
    return said(job, [[*begin, "palavra", "acaba"]]) if again else answered(job)


def translated(glossary: Glossary, decode=answered) -> tuple[Translation, list[Job]]:
    text = " ".join(SOURCE)
    steps, jobs, answers = term_steps(Job(text), glossary.find(text), True), [], None
    while True:
        try:
            asked: Sequence[Job] = next(steps) if answers is None else steps.send(answers)
        except StopIteration as end:
            return end.value, jobs
        jobs += asked
        answers = [decode(job) for job in asked]


def test_a_term_replaces_its_word_and_the_article_before_it() -> None:
    result, jobs = translated(Glossary({"word": "nome"}))
    assert result.text == "o nome acaba"
    begins = [job.begin for job in jobs]
    assert set(begins[1:-1]) == {Forced(f"{article} nome", 0) for article in ("a", "o", "as", "os", "an")}
    assert (begins[0], begins[-1]) == (None, Forced("o nome", len("o nome")))
    result, jobs = translated(Glossary({"word": "nome"}), stubborn)
    assert result.text == "o nome acaba"
    assert jobs[-1].begin == Forced("o nome acaba", len("o nome acaba"))  # with the word after the old one
    kept, _ = translated(Glossary({"ends": "fim"}))
    assert kept.text == "a palavra fim"
    assert kept.token_scores[:2] == answered(Job("")).token_scores[:2]  # of what was given
    assert kept.hypotheses[0].log_prob == pytest.approx(sum(kept.token_scores))


def test_a_term_that_is_there_costs_nothing() -> None:
    result, jobs = translated(Glossary({"word": ["nome", "palavra"]}))
    assert result.text == "a palavra acaba" and len(jobs) == 1


def test_words_are_replaced_where_no_answer_has_the_term() -> None:
    def forgets(job: Job) -> Translation:
        return said(job, [re.sub("nome", "?", answer.text, flags=re.I).split() for answer in answered(job).hypotheses])

    result, _ = translated(Glossary({"word": "nome"}), forgets)
    assert result.text == "a nome acaba"


def test_what_is_forced_has_the_log_probabilities_of_the_model(tiny_model: Path, sentences: list[str]) -> None:
    for options in ({"beam_size": 1, "return_scores": True}, {"beam_size": 3}):
        translator = Translator(tiny_model, **options)
        for source, other in zip(sentences[:4], sentences[4:8], strict=True):
            target = translator.translate([other])[0].text
            (forced,) = translator.translate([source], raw=True, target_prefix=[Forced(target, 0)])
            (scored,) = translator.score([source], [target])
            count = len(scored.tokens)
            assert forced.tokens[:count] == scored.tokens
            np.testing.assert_allclose(forced.token_scores[:count], scored.token_scores[:count], atol=1e-3)
            (given,) = translator.translate([source], raw=True, target_prefix=target)
            assert not any(given.token_scores[:count])
            assert options["beam_size"] > 1 or given.text == forced.text
    with translator.session(beam_size=4, cube_pruning="exact") as session, pytest.raises(OptionError, match="forced"):
        session.submit(sentences[0], target_prefix=Forced(sentences[1], 0))


@pytest.mark.parametrize(
    "options",
    [{"sampling": True}, {"cube_pruning": "exact"}, {"return_alternatives": True}, {"prefix_bias_beta": 0.5}],
)
def test_what_a_glossary_cannot_go_with_is_refused(tiny_model: Path, options) -> None:
    (name,) = options
    translator = Translator(tiny_model)
    with pytest.raises(OptionError, match=f"{name} is .* with a glossary"):
        translator.translate_iter(["Balo."], glossary=GLOSSARY, **options)
    with pytest.raises(OptionError, match="with target_prefix"):
        translator.translate_iter(["Balo."], glossary=GLOSSARY, target_prefix="a")
    with pytest.raises(InputError, match="give a translation"):
        translator.translate_iter(["Balo."], glossary={"a": 1})


def test_short_words_that_are_no_articles_stay() -> None:
    def without(job: Job) -> Translation:
        begin = job.begin.text.split() if job.begin else []
        return said(job, [[*begin, *["sem", "palavra", "acaba"][len(begin) :]]])

    result, jobs = translated(Glossary({"word": "nome"}), without)
    assert result.text == "sem nome acaba"
    assert {job.begin for job in jobs[1:-1]} == {Forced("sem nome", 4)}


def test_articles_have_forms_of_their_own_preposition() -> None:
    assert {"do", "dos", "das"} <= set(article_forms("da"))
    assert not {"na", "a", "em"} & set(article_forms("da"))
    assert {"Le", "El", "Il"} <= set(article_forms("La"))
    assert article_forms("sem") == []


@pytest.mark.parametrize("options", [{"beam_size": 4, "patience": 0.5}, {"beam_size": 4, "coverage_penalty": 0.2}])
def test_options_of_beams_go_with_a_glossary(tiny_model: Path, options) -> None:
    (result,) = Translator(tiny_model).translate(["Lu balo."], glossary=GLOSSARY, **options)
    assert holds_terms("Lu balo.", result.text)
