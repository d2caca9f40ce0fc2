"""The runner finds every benchmark, and the scoreboard tells what holds, what misses and what was not measured."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from bench.__main__ import benchmarks, main
from bench.harness import record
from bench.harness.testset import NoDataError
from bench.scoreboard.claim import Claim, Settings, Verdict, pending, recorded
from bench.scoreboard.run import judge, wanted

SETTINGS = Settings("data", "de-en", quick=True)
PARTS = ("structure", "real", "proven", "papers", "gpu", "service")


def test_the_runner_lists_benchmarks_by_name_and_title(capsys):
    assert main([]) == 0
    listed = capsys.readouterr().out
    assert "decode.speed" in listed
    assert "parity.identity" in listed
    assert all(title for _, title in benchmarks().values())


@pytest.mark.parametrize("name", ["decode.speed", "micro.latency", "contract.truths", "scoreboard.run"])
def test_a_benchmark_says_what_it_takes(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert "--data" in capsys.readouterr().out


def test_an_unknown_benchmark_is_refused_by_name(capsys):
    assert main(["decode.sped"]) == 2
    assert "decode.sped" in capsys.readouterr().err


def test_options_of_a_benchmark_are_checked(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["scoreboard.run", "strukture"])
    assert ended.value.code == 2
    assert "strukture" in capsys.readouterr().err


@pytest.mark.parametrize("part", PARTS)
def test_every_part_has_claims_with_a_target(part):
    claims = import_module(f"bench.scoreboard.{part}").CLAIMS
    assert claims
    assert all(claim.number and claim.says and claim.target for claim in claims)


def raising(error: Exception):
    def measure(settings: Settings) -> Verdict:
        raise error

    return measure


def test_what_is_not_there_is_not_measured_and_what_fails_misses(capsys):
    assert judge(Claim("1", "a", "b", raising(NoDataError("no text"))), SETTINGS) == Verdict(None, "no text")
    assert judge(Claim("1", "a", "b", raising(ValueError("broken"))), SETTINGS).holds is False
    assert judge(Claim("1", "a", "b", pending("needs a GPU")), SETTINGS).word == "not measured"
    assert judge(Claim("1", "a", "b", raising(AssertionError("not called")), slow=True), SETTINGS).holds is None


def test_a_claim_is_read_from_the_newest_line_with_its_options(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    lines = [
        {"options": {"model": model}, "ratio": ratio, "commit": "0123456789", "dirty": False, "time": "2026-01-02T03"}
        for model, ratio in (("a", 2.0), ("a", 3.0), ("b", 9.0))
    ]
    (tmp_path / "speed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    judged = recorded("speed", lambda line: Verdict(line["ratio"] >= 3, f"x{line['ratio']}"), model="a")
    assert judged(SETTINGS) == Verdict(True, "x3.0 [0123456, 2026-01-02]")
    absent = recorded("speed", lambda line: Verdict(True, ""), model="c")(SETTINGS)
    assert absent.holds is None
    assert "model=c" in absent.figure


def test_a_number_names_the_claims_that_begin_with_it():
    claim = Claim("2a", "a", "b", pending("no"))
    assert wanted(claim, [])
    assert wanted(claim, ["2"])
    assert not wanted(claim, ["2b"])


def test_the_papers_have_a_line_for_each_of_their_38_rows():
    from bench.scoreboard.papers import CLAIMS

    numbers = [claim.number for claim in CLAIMS]
    counts = {
        paper: sum(number.startswith(f"{paper}-") for number in numbers)
        for paper in ("L2S", "CVP", "CUBE", "SHARP", "STREAM")
    }
    assert counts == {"L2S": 14, "CVP": 5, "CUBE": 5, "SHARP": 8, "STREAM": 6} and len(set(numbers)) == 38
    for claim in CLAIMS:
        assert claim.measure(SETTINGS).figure  # each reads the lines that are there, whatever they say


def test_a_miss_has_its_measured_reason_or_none(monkeypatch):
    from bench.scoreboard.papers import row

    line = {"commit": "abcdef123", "dirty": False, "options": {"model": "m"}, "ratio": 2.0}
    lines = {"speed": [line], "floor": [line | {"commit": "1234567890", "most": 2.5}]}
    monkeypatch.setattr(row.record, "read", lambda benchmark: lines.get(benchmark, []))

    def claim(least: float, by: str) -> Verdict:
        judge = lambda line: Verdict(line["ratio"] >= least, "x2")  # noqa: E731
        reason = lambda line: f"at most x{line['most']}"  # noqa: E731
        return row.row("1", "a", "b", judge, ("speed", {"model": "m"}), because=reason, by=[(by, {})]).measure(SETTINGS)

    missed, holding, unexplained = claim(3.0, "floor"), claim(1.0, "floor"), claim(3.0, "nothing")
    assert (missed.word, missed.because, missed.explained) == ("misses", "at most x2.5 [1234567]", True)
    assert (holding.word, holding.because, holding.explained) == ("holds", "", True)
    assert (unexplained.word, unexplained.because, unexplained.explained) == ("misses", "", False)
    assert claim(3.0, "speed").because == ""  # a line from before the figure was recorded
