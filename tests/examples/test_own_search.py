"""examples/own_search.py: a search from outside of the package, chosen by name as any other."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sharpbeam import OptionError, Translator, register_search
from sharpbeam.search import registry

EXAMPLE = Path(__file__).parents[2] / "examples/own_search.py"


@pytest.fixture(scope="module")
def example() -> Iterator[dict[str, Any]]:
    yield runpy.run_path(str(EXAMPLE))
    del registry._SEARCHES["diverse"]


def test_answers_differ_and_the_first_is_greedy(
    example: dict[str, Any], tiny_model: Path, sentences: list[str]
) -> None:
    translator = Translator(tiny_model)
    greedy = translator.translate(sentences[:20], beam_size=1, max_length=12, return_scores=True)
    diverse = translator.translate(sentences[:20], search="diverse", num_hypotheses=3, max_length=12)
    assert [several.hypotheses[0] for several in diverse] == [one.hypotheses[0] for one in greedy]
    different = [len({hypothesis.tokens for hypothesis in several.hypotheses}) for several in diverse]
    assert sum(different) > 30  # some beginnings are so likely that the penalty does not matter
    assert "in Python" in translator.work.reason


def test_answers_do_not_depend_on_batch_or_schedule(
    example: dict[str, Any], tiny_model: Path, sentences: list[str]
) -> None:
    translator = Translator(tiny_model)
    options: dict[str, Any] = {"search": "diverse", "num_hypotheses": 4, "max_length": 12}
    expected = translator.translate(sentences[:8], batch_tokens=1, **options)
    assert translator.translate(sentences[:8], **options) == expected
    assert translator.translate(sentences[:8][::-1], schedule="stream", max_rows=12, **options)[::-1] == expected


def test_names_are_checked(example: dict[str, Any], tiny_model: Path) -> None:
    with pytest.raises(OptionError, match=r"search is 'divers'; it must be beam or diverse. Did you mean 'diverse'\?"):
        Translator(tiny_model).translate(["Ba."], search="divers")
    with pytest.raises(OptionError, match="name is 'beam'; it must be another"):
        register_search("beam", example["DiverseSearch"])
    with pytest.raises(OptionError, match="search is 'diverse'; it must be left at 'beam' with sampling"):
        Translator(tiny_model).translate(["Ba."], search="diverse", sampling=True)


def test_cancelled_requests_are_forgotten(example: dict[str, Any], tiny_model: Path, sentences: list[str]) -> None:
    translator = Translator(tiny_model)
    options: dict[str, Any] = {"search": "diverse", "num_hypotheses": 2, "max_length": 12}
    (expected,) = translator.translate(sentences[3:4], **options)
    with translator.session(**options) as session:
        dropped, kept = session.submit(sentences[1]), session.submit(sentences[3])
        session.step()
        assert dropped.cancel()
        list(session.run())
        assert kept.result() == expected
