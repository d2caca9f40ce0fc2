"""`sharpbeam trace`: the record agrees with the search that it is of."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command import Run

from sharpbeam import OptionError, Translator

TEXT = "Bade ki lomu."


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 1},
        {"beam_size": 3, "num_hypotheses": 3},
        {"beam_size": 4, "max_score_margin": 1.5, "early_stopping": "proven"},
        {"beam_size": 3, "finishing": "stay", "max_score_margin": 4.0},
        {"beam_size": 4, "cube_pruning": "approximate"},
        {"beam_size": 3, "no_repeat_ngram_size": 1, "min_length": 4, "target_prefix": "Bade"},
        {"beam_size": 2, "stop_margin": 0.5},
    ],
)
def test_the_record_is_that_of_the_search(tiny_model: Path, options: dict) -> None:
    translator = Translator(tiny_model)
    options = {"max_length": 15} | options
    trace = translator.trace(TEXT, **options)
    (translation,) = translator.translate([TEXT], **options, return_scores=True)
    assert trace.answers == translation.hypotheses
    assert trace.source == TEXT and trace.why
    before = trace.steps[0].rows
    assert [row.pieces for row in before] == [()]
    finished = {}
    for number, step in enumerate(trace.steps):
        assert len(step.rows) <= options["beam_size"]
        lives = [candidate for candidate in step.candidates if candidate.outcome == "lives"]
        assert [candidate.next_row for candidate in lives] == list(range(len(lives)))
        if number + 1 < len(trace.steps):
            following = trace.steps[number + 1].rows
            assert [row.score for row in following] == [candidate.score for candidate in lives]
            assert [row.pieces[:-1] for row in following] == [step.rows[c.row].pieces for c in lives]
        for candidate in step.candidates:
            row = step.rows[candidate.row]
            if candidate.outcome != "banned" and "no_repeat_ngram_size" not in options:
                assert candidate.score == pytest.approx(row.score + candidate.log_prob)
            if candidate.outcome == "finished":
                finished[(*row.pieces, candidate.piece)] = candidate.score
    for answer in trace.answers:
        eos = [piece for piece in finished if piece[: len(answer.tokens)] == answer.tokens]
        assert any(finished[pieces] == pytest.approx(answer.log_prob) for pieces in eos)
    groups = [row.group for step in trace.steps for row in step.rows]
    assert (max(groups) > 0) == (options["beam_size"] > 1)
    if "cube_pruning" in options:
        assert any(len({row.group for row in step.rows}) < len(step.rows) for step in trace.steps)
    if "max_score_margin" in options:
        assert any(candidate.outcome == "threshold" for step in trace.steps for candidate in step.candidates)


def test_text_and_json(call: Run, tiny_model: Path) -> None:
    arguments = ("trace", tiny_model, TEXT, "--beam-size", 3, "--max-length", 9, "--min-length", 5)
    result = call(*arguments)
    assert result.status == 0, result.err
    assert result.lines[0] == TEXT
    assert "step 1" in result.lines and any(line.startswith("stopped after step") for line in result.lines)
    record = json.loads(call(*arguments, "--json").out, parse_constant=pytest.fail)
    assert record["source"] == TEXT and record["why"]
    assert len(record["steps"]) == sum(line.startswith("step ") for line in result.lines)
    assert (
        record["answers"][0]["text"]
        == Translator(tiny_model).translate([TEXT], beam_size=3, max_length=9, min_length=5)[0].text
    )


def test_wrong_use_is_named(call: Run, tiny_model: Path) -> None:
    call("trace", tiny_model, " ").refused(1, "the text is empty")
    call("trace", tiny_model, TEXT, "--beam-size", 0).refused(2, "beam_size is 0")
    with pytest.raises(OptionError, match="of one beam search"):
        Translator(tiny_model).trace(TEXT, sampling=True)
