"""Engines in processes of their own answer in order, with what they took, and say why they ended."""

from __future__ import annotations

import sys

import pytest

from bench.decode.real import lines
from bench.engines.child import Child, EngineError, python_engine


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


def test_a_table_for_people_names_every_engine():
    figures = {"ratio": 1.0, "least_ratio": 1.0, "most_ratio": 1.0, "wall_ratio": 1.0, "bleu": 50.0, "peak_mib": 400.0}
    figures |= {"ms_per_sentence": 9.0, "same_as_baseline": 1.0}
    options = {"model": "enpt", "set": "ntrex", "beam": 1, "size": 1, "sentences": 9, "rounds": 1}
    contenders = {"Bergamot": figures, "ours": figures | {"ratio": 3.0}}
    table = lines({"contenders": contenders, "missing": {"Marian": "not installed"}, "options": options, "load": 0.5})
    assert "x3.00" in table
    assert "Marian: not installed" in table
