"""Engines in processes of their own answer in order, with what they took, and say why they ended."""

from __future__ import annotations

import sys

import pytest

from bench.decode.real import lines
from bench.engines.child import Child, EngineError, python_engine
from bench.scoreboard import real
from bench.scoreboard.claim import Settings

SETTINGS = Settings("data", "de-en", quick=True)


def test_ours_with_no_flags_answers_each_text_and_counts_what_it_took():
    with python_engine("ours", model="de-en") as engine:
        answer = engine.translate(["Guten Morgen.", "Danke!"], 1)
        again = engine.translate(["Danke!", "Guten Morgen."], 2)
    assert answer.texts == again.texts[::-1]
    assert all(answer.texts)
    assert 0 < answer.cpu_s < 60
    assert answer.peak_mib > 20


def test_an_engine_that_ends_is_named():
    with Child(sys.executable, "-c", "print(1 / 0)") as engine, pytest.raises(EngineError, match="ended with 1"):
        engine.translate(["Hallo"], 1)


def line(ours: dict, load: float = 0.5) -> dict:
    base = {"ratio": 1.0, "least_ratio": 1.0, "most_ratio": 1.0, "wall_ratio": 1.0, "bleu": 50.0, "peak_mib": 400.0}
    base |= {"ms_per_sentence": 9.0, "same_as_baseline": 1.0}
    options = {"model": "enpt", "set": "ntrex", "beam": 1, "size": 1, "sentences": 9, "rounds": 1}
    contenders = {"Bergamot": base, "ours": base | ours}
    return {"contenders": contenders, "missing": {}, "options": options, "load": load, "cores": 2, "commit": "a" * 40}


@pytest.mark.parametrize(
    ("ours", "load", "holds"),
    [
        ({"wall_ratio": 9.5, "ratio": 3.0}, 0.5, True),
        ({"wall_ratio": 9.5, "ratio": 3.0}, 8.0, False),  # a busy machine: processor time is what counts
        ({"wall_ratio": 9.5, "bleu": 49.0}, 0.5, False),  # fast, and worse
    ],
)
def test_a_claim_of_speed_needs_the_ratio_and_the_quality(ours, load, holds, monkeypatch):
    monkeypatch.setattr(real.record, "read", lambda name: [line(ours, load)])
    verdict = next(claim for claim in real.CLAIMS if claim.number == "2a").measure(SETTINGS)
    # The newest line stands for both models here.
    assert verdict.holds is None
    assert "pten" in verdict.figure
    assert real.speed_over_baseline(("enpt",), 1, 1, 9)(SETTINGS).holds is holds


def test_a_table_for_people_names_every_engine():
    said = lines(line({"ratio": 3.0}) | {"missing": {"Marian": "not installed"}})
    assert "x3.00" in said
    assert "Marian: not installed" in said
