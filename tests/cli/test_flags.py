"""Flags come from the options dataclasses; --help teaches; wrong use is one clear line and exit 2."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from support.command import Run

from sharpbeam.cli.app import PROGRAM
from sharpbeam.cli.flags import parse
from sharpbeam.options.decode import (
    LanguageOptions,
    MachineOptions,
    OutputLayerOptions,
    SamplingOptions,
    ScheduleOptions,
    SearchOptions,
)
from sharpbeam.options.documents import DocumentOptions, LineOptions

ALL = (SearchOptions, SamplingOptions, ScheduleOptions, OutputLayerOptions, LanguageOptions, MachineOptions)
AROUND = (DocumentOptions, LineOptions)
VERBS = PROGRAM.verbs()


@pytest.mark.parametrize("verb", ["translate", "score", "evaluate"])
def test_defaults_and_help_are_those_of_the_dataclasses(verb: str) -> None:
    fields = {field.name: field for options in (*ALL, *AROUND) for field in dataclasses.fields(options)}
    made = {one.name: one for one in VERBS[verb].flags if one.panel not in ("Arguments", "Options")}
    assert {"batch_tokens", "max_input_length", "threads", "isa"} <= made.keys() <= fields.keys()
    for name, one in made.items():
        assert one.facts is fields[name].metadata
        facts = fields[name].metadata
        assert one.help == (facts["off"] if fields[name].default is True else facts["help"])
        assert one.facts["advanced"] == facts["advanced"]


def _options() -> set[str]:
    """Of all groups, but for return_scores, which follows from the format."""
    return {field.name for options in ALL for field in dataclasses.fields(options)} - {"return_scores"}


def test_translate_has_every_option() -> None:
    names = _options()
    assert names <= {one.name for one in VERBS["translate"].flags}


def test_short_help_has_the_options_people_use_and_help_all_has_all(call: Run) -> None:
    short, whole = call("translate", "--help").out.decode(), call("translate", "--help-all").out.decode()
    flags = {"--" + name.replace("_", "-") for name in _options()}
    flags |= {"--output", "--resume", "--restart", "--format", "--errors", "--target-prefix", "--stats", "--help-all"}
    flags |= {"--field", "--into", "--glossary", "--encoding", "--lines", "--fields", "--raw", "--flags"}
    flags |= {"--keep", "--no-split-sentences", "--no-guards", "--max-sentence", "--at-once"}
    shown = set(re.findall(r"^│ (--[a-z-]+)", short, re.MULTILINE))
    assert len(shown) <= 20 and shown <= flags
    assert {"--beam-size", "--output-layer", "--threads", "--compute-type", "--output", "--resume"} <= shown
    every = set(re.findall(r"^│ (--[a-z-]+)", whole, re.MULTILINE))
    assert every == {re.sub("^--(normalize|merge-states)$", r"--no-\1", flag) for flag in flags}
    assert call("translate", "--help").out.decode() == short  # nothing is left switched on
    assert re.search(r"│ +scan: the same top tokens", short)  # a line on each layer
    assert not re.findall(r"exhaustive|torch-cpu|profiled|backend", whole)  # for tests and benchmarks


@pytest.mark.parametrize("verb", ["translate", "score", "train", "evaluate", "info", "convert"])
def test_help_has_examples(call: Run, verb: str) -> None:
    result = call(verb, "--help")
    assert result.status == 0
    assert "Examples" in result.out.decode()
    assert f"sharpbeam {verb}" in result.out.decode()


def test_help_names_the_kind_of_a_value(call: Run) -> None:
    message = call("tune", "--help").out.decode()
    assert "--beam-size N" in message and "--text FILE" in message


def test_help_lists_the_verbs(call: Run) -> None:
    text = call("--help").out.decode()
    assert all(verb in text for verb in ("translate", "score", "train", "evaluate", "info"))
    groups = re.findall(r"^╭─ (.*?) ─", text, re.MULTILINE)
    assert groups == ["Options", "Use a model", "Serve it", "Get a model", "Make it faster", "Measure it"]


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (["--beam-size", 0], ["beam_size is 0", "between 1 and 10000"]),
        (["--beam-size", -3], ["beam_size is -3", "between 1 and 10000"]),
        (["--beam-size", 201], ["beam_size is 201", "at most 200"]),
        (["--beam-size", "five"], ["beam_size is 'five'; it must be a whole number"]),
        (["--length-penalty", "long"], ["length_penalty is 'long'; it must be a number"]),
        (["--device", "tpu"], ["device is 'tpu'; it must be cpu or cuda."]),
        (["--compute-type", "int8_float32"], ["compute_type is 'int8_float32'; it must be int8, which takes"]),
        (["--num-beams", 3], ["No such option: --num-beams; here it is called --beam-size."]),
        (["--beam-size", 2, "--num-hypotheses", 3], ["num_hypotheses is 3", "between 1 and beam_size (2)"]),
        (["--length-penalty", "nan"], ["length_penalty is nan"]),
        (["--early-stopping", "maybe"], ["early_stopping is 'maybe'", "it must be true, false, never or proven."]),
        (["--min-length", 300], ["min_length is 300", "between 0 and max_length (256)"]),
        (["--max-length", 0], ["max_length is 0"]),
        (["--batch-tokens", -1], ["batch_tokens is -1"]),
        (["--max-input-length", -1], ["max_input_length is -1"]),
        (["--threads", -1], ["threads is -1", "between 0 and 1024"]),
        (["--isa", "mmx"], ["isa is 'mmx'", "auto, scalar, avx2, avx512"]),
        (["--format", "xml"], ["format is 'xml'", "auto, text, jsonl, pharaoh, html"]),
        (["--errors", "ignore"], ["errors is 'ignore'", "strict or replace"]),
        (["--beam-sise", 3], ["--beam-sise", "--beam-size", "sharpbeam translate --help"]),
        (["--resume"], ["--resume and --restart need --output"]),
    ],
)
def test_wrong_values_are_named(call: Run, tiny_model: Path, text: Path, flags: list[object], parts: list[str]) -> None:
    call("translate", tiny_model, text, *flags).refused(2, *parts)


def test_wrong_use_is_one_line(call: Run) -> None:
    call("translate").refused(2, "MODEL is missing", "sharpbeam translate --help")
    assert call("--version").out.startswith(b"sharpbeam ")
    call("transalte", "x").refused(2, "transalte", "sharpbeam --help")


def test_short_help_works_everywhere(call: Run) -> None:
    assert call("-h").out == call("--help").out != b""
    for verb in VERBS:
        result = call(*verb.split(), "-h")
        assert result.status == 0 and f"Usage: sharpbeam {verb} [OPTIONS]".encode() in result.out


def test_values_are_named_by_what_they_are() -> None:
    names = {int: "N", float: "X"}
    for verb, command in VERBS.items():
        for one in command.flags:
            if not one.is_argument and one.kind is not bool:
                where = f"{verb} {one.spellings[0]}"
                assert one.metavar == names.get(one.kind, one.metavar), where
                if one.help.startswith("Folder"):
                    assert one.metavar == "FOLDER", where
                if one.metavar == "FILE":
                    assert one.kind is Path, where


def test_a_flag_is_not_the_value_of_another(call: Run) -> None:
    result = call("serve", "de-en", "--pivot", "--api-keys", "keys.txt")
    result.refused(2, "Option '--pivot' needs a value, not the option '--api-keys'")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("sharpbeam tra", ["translate", "train"]),
        ("sharpbeam translate --bea", ["--beam-size"]),
        ("sharpbeam fit ", ["preview", "screen", "shortlist"]),
        ("sharpbeam fit screen m --clu", ["--clusters"]),
        ("sharpbeam translate de-en ", []),  # the shell lists files
    ],
)
def test_the_shell_completes_verbs_and_flags(
    call: Run, monkeypatch: pytest.MonkeyPatch, line: str, expected: list[str]
) -> None:
    """As bash calls the program that `complete -C` names."""
    monkeypatch.setenv("COMP_LINE", line)
    result = call("sharpbeam", line.rsplit(" ", maxsplit=1)[-1], line.split(" ")[-2])
    assert (result.status, result.lines) == (0, expected)


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (
            ["m", "--beam-size=3", "f", "--", "--raw"],
            {"model": "m", "files": [Path("f"), Path("--raw")], "beam_size": 3},
        ),
        (["-oout", "m", "-"], {"model": "m", "files": [Path("-")], "output": Path("out")}),
        (["m", "--target-prefix", "-x", "--no-guards"], {"model": "m", "target_prefix": "-x", "guards": False}),
        (["m", "--keep", "a", "--keep", "b", "--lines"], {"model": "m", "keep": ["a", "b"], "lines": True}),
        (["m", "--max-wait", "4", "--refill-at", ".5"], {"model": "m", "max_wait": 4, "refill_at": 0.5}),
    ],
)
def test_flags_and_arguments_may_be_mixed(words: list[str], values: dict[str, object]) -> None:
    assert parse(VERBS["translate"].flags, words, "sharpbeam translate") == values


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["info", "a", "b"], "There is an argument too many: 'b'. See 'sharpbeam info --help'."),
        (["info", "--json=yes"], "Option '--json' takes no value."),
        (["tune", "m", "--text"], "Option '--text' needs a value."),
        (["tune", "m", "--beam-size", "0"], "beam_size is 0; it must be 1 or more."),
        (["score", "m", "--format", "xml"], "format is 'xml'; it must be text or jsonl."),
        (["train", "recipe.toml"], "--output is missing: Folder of the run"),
        (["--ofline"], "No such option '--ofline'. Did you mean '--offline'? See 'sharpbeam --help'."),
        (["fit", "scren"], "No such command 'scren'. Did you mean 'screen'? See 'sharpbeam fit --help'."),
    ],
)
def test_wrong_command_lines_are_named(call: Run, words: list[str], message: str) -> None:
    call(*words).refused(2, message)
