"""Flags come from the options dataclasses; --help teaches; wrong use is one clear line and exit 2."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
import typer
from support.command import Run

from sharpbeam.cli.app import app
from sharpbeam.cli.help import REPLACED, value_name
from sharpbeam.cli.verbs.evaluate import evaluate
from sharpbeam.cli.verbs.score import score
from sharpbeam.cli.verbs.translate import translate
from sharpbeam.options.decode import (
    LanguageOptions,
    MachineOptions,
    OutputLayerOptions,
    SamplingOptions,
    ScheduleOptions,
    SearchOptions,
)
from sharpbeam.options.documents import DocumentOptions

ALL = (SearchOptions, SamplingOptions, ScheduleOptions, OutputLayerOptions, LanguageOptions, MachineOptions)


@pytest.mark.parametrize("verb", [translate, score, evaluate])
def test_defaults_and_help_are_those_of_the_dataclasses(verb: Callable[..., None]) -> None:
    parameters = inspect.signature(verb).parameters
    fields = {field.name: field for options in (*ALL, DocumentOptions) for field in dataclasses.fields(options)}
    made = {name: p.default for name, p in parameters.items() if getattr(p.default, "rich_help_panel", None)}
    assert {"batch_tokens", "max_input_length", "threads", "isa"} <= made.keys() <= fields.keys()
    for name, option in made.items():
        default = fields[name].default
        assert option.default == (default if default is None or isinstance(default, bool) else str(default))
        facts = fields[name].metadata
        assert option.help == (facts["off"] if default is True else facts["help"])
        assert option.hidden == facts["advanced"]


def _options() -> set[str]:
    """Of all groups, but for return_scores, which follows from the format."""
    return {field.name for options in ALL for field in dataclasses.fields(options)} - {"return_scores"}


def test_translate_has_every_option() -> None:
    names = _options()
    assert names <= inspect.signature(translate).parameters.keys()


def test_short_help_has_the_options_people_use_and_help_all_has_all(call: Run) -> None:
    short, whole = call("translate", "--help").out.decode(), call("translate", "--help-all").out.decode()
    flags = {"--" + name.replace("_", "-") for name in _options()}
    flags |= {"--output", "--resume", "--restart", "--format", "--errors", "--target-prefix", "--stats", "--help-all"}
    flags |= {"--field", "--into", "--shard", "--glossary", "--encoding", "--lines", "--fields", "--raw", "--flags"}
    flags |= {"--keep", "--no-split-sentences", "--no-guards", "--max-sentence", "--at-once"}
    shown = set(re.findall(r"^│ (--[a-z-]+)", short, re.MULTILINE))
    assert len(shown) <= 20 and shown <= flags
    assert {"--beam-size", "--output-layer", "--threads", "--compute-type", "--output", "--resume"} <= shown
    every = set(re.findall(r"^│ (--[a-z-]+)", whole, re.MULTILINE))
    assert every == {re.sub("^--(normalize|merge-states)$", r"--no-\1", flag) for flag in flags}
    assert call("translate", "--help").out.decode() == short  # nothing is left switched on
    assert re.search(r"│ +scan: the same top tokens", short)  # a line on each layer
    assert not re.findall(r"exhaustive|blas|torch-cpu|profiled|backend", whole)  # for tests and benchmarks


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
        (
            ["--projection", "scan"],  # vocabulary: an old name
            ["No such option: --projection; here it is called --output-layer."],  # vocabulary: an old name
        ),  # vocabulary: an old name
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
    call("translate").refused(2, "model", "sharpbeam translate --help")
    assert call("--version").out.startswith(b"sharpbeam ")
    call("transalte", "x").refused(2, "transalte", "sharpbeam --help")


def _verbs() -> dict[str, typer.core.TyperCommand]:
    return vars(typer.main.get_command(app))["commands"]


def test_short_help_works_everywhere(call: Run) -> None:
    assert call("-h").out == call("--help").out != b""
    for verb in _verbs():
        result = call(verb, "-h")
        assert result.status == 0 and f"Usage: sharpbeam {verb} [OPTIONS]".encode() in result.out


def test_values_are_named_by_what_they_are() -> None:
    names = {"int": "N", "float": "X"}
    for verb, command in _verbs().items():
        for option in command.params:
            if isinstance(option, typer.core.TyperOption) and not option.is_flag:
                name, where = option.metavar or value_name(option), f"{verb} {option.opts[0]}"
                annotation = getattr(getattr(option, "type_descriptor", None), "annotation", None)
                kind = getattr(next(iter(get_args(annotation)), annotation), "__name__", "")
                assert name == names.get(kind, name), where
                if (option.help or "").startswith("Folder"):
                    assert name == "FOLDER", where
                if name == "FILE":
                    assert kind in ("Path", ""), where


def test_a_flag_is_not_the_value_of_another(call: Run) -> None:
    result = call("serve", "de-en", "--pivot", "--api-keys", "keys.txt")
    result.refused(2, "Option '--pivot' needs a value, not the option '--api-keys'")


def test_old_verbs_name_their_successor(call: Run) -> None:
    for verb, successor in REPLACED.items():
        if verb not in _verbs():
            call(verb, "de-en").refused(2, f"No such command '{verb}'; write: sharpbeam {successor}.")


def test_the_shell_completes_verbs_and_flags(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_SHARPBEAM_COMPLETE", "complete_bash")
    for line, position, expected in (("sharpbeam tra", 1, "translate"), ("sharpbeam translate --be", 2, "--beam-size")):
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(position))
        result = run()
        assert result.status == 0 and expected in result.lines, result.err
