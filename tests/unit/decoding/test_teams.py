"""Threads that have no request of their own help with those of the others, and change no byte of an answer."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sharpbeam import MachineOptions, Translator, _core
from sharpbeam.decoding import workers as module
from sharpbeam.decoding.loop import Run
from sharpbeam.decoding.workers import MOST, Teams


def sizes(teams: Teams, workers: int) -> list[int]:
    lent = teams.lend(workers)
    teams.take_back(lent)
    return [team.threads for team in lent]


@pytest.mark.parametrize(
    ("threads", "workers", "expected"),
    [(1, 1, [1]), (2, 1, [2]), (2, 2, [1, 1]), (8, 3, [2, 2, 2]), (7, 2, [3, 3]), (64, 1, [MOST]), (2, 0, [])],
)
def test_threads_without_a_request_are_shared_among_the_workers(
    threads: int, workers: int, expected: list[int]
) -> None:
    assert sizes(Teams(threads), workers) == expected


def test_runs_side_by_side_have_no_more_than_all_threads() -> None:
    teams = Teams(4)
    first = teams.lend(1)
    assert first[0].threads == 4
    assert sizes(teams, 1) == [1] and sizes(teams, 3) == [1, 1, 1]
    teams.take_back(first)
    again = teams.lend(1)
    assert again[0] is first[0]  # its threads have waited
    teams.take_back(again)
    two = teams.lend(2)
    assert sizes(teams, 1) == [1]
    teams.take_back(two)


def test_a_team_is_left_in_the_thread_that_entered_it() -> None:
    """Also within other teams, and twice; which of them serves is a native test."""
    first, second = _core.Team(2), _core.Team(2)
    with first:
        with second, first, second:
            pass
        with ThreadPoolExecutor(1) as other, pytest.raises(ValueError, match="was not entered in this thread"):
            other.submit(first.__exit__, None, None, None).result()
    with pytest.raises(ValueError, match="was not entered in this thread"):
        first.__exit__(None, None, None)


def test_an_error_gives_the_threads_back(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    translator = Translator(tiny_model, machine=MachineOptions(threads=3))

    def fails(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Run, "step", fails)
        translator.translate(["a b"])
    assert sizes(translator.loaded.teams, 1) == [3]


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Teams that share every product, however small."""
    monkeypatch.setattr(module, "Team", lambda threads: _core.Team(threads, grain_size=1))


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("output_layer", ["exact", "scan"])
@pytest.mark.parametrize("isa", _core.table_names())
def test_any_number_of_threads_gives_the_same_answers(
    tiny_model: Path, sentences: list[str], isa: str, output_layer: str
) -> None:
    options = {"beam_size": 4, "max_length": 15, "output_layer": output_layer, "num_hypotheses": 4}
    alone = Translator(tiny_model, machine=MachineOptions(threads=1, isa=isa))
    expected = [alone.translate([text], **options) for text in sentences[:4]]
    for threads in (2, 5):
        translator = Translator(tiny_model, machine=MachineOptions(threads=threads, isa=isa))
        for text, answer in zip(sentences[:4], expected, strict=True):
            assert translator.translate([text], **options) == answer
        assert translator.translate(sentences[:4], **options) == [answer for (answer,) in expected]


@pytest.mark.usefixtures("eager")
def test_callers_side_by_side_get_their_own_answers(tiny_model: Path, sentences: list[str]) -> None:
    translator = Translator(tiny_model, machine=MachineOptions(threads=3, compute_type="int8"))
    expected = [translator.translate([text], max_length=10) for text in sentences[:12]]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: translator.translate([text], max_length=10), sentences[:12])) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("eager")
def test_a_forked_process_translates_too(tiny_model: Path, sentences: list[str]) -> None:
    translator = Translator(tiny_model, machine=MachineOptions(threads=3))
    expected = translator.translate(sentences[:1], max_length=10)
    if (child := os.fork()) == 0:
        same = translator.translate(sentences[:1], max_length=10) == expected
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert translator.translate(sentences[:1], max_length=10) == expected
