"""The verb `fit shortlist`, and translating with what it made."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from support.command import Run

from sharpbeam.decoding.loading import load_model
from sharpbeam.options.decode import MachineOptions
from sharpbeam.output_layers.registry import find_artifact
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.storage.artifacts import read_facts

USE = ("--output-layer", "shortlist", "--max-length", 12)


@pytest.fixture()
def model(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def test_from_pairs_to_translations_in_any_company(call: Run, model: Path, text: Path, tmp_path: Path) -> None:
    lines = [line for line in text.read_text().splitlines() if line]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{b}\t{a}\n" for a, b in zip(lines, lines[1:] + lines[:1], strict=True)))
    columns = ("--source-column", 1, "--target-column", 0)
    result = call("fit", "shortlist", model, "--pairs", pairs, *columns, "--translations", 3, "--frequent", 5)
    assert result.status == 0, result.err
    assert "9 tokens in every set" in result.out.decode()
    facts = read_facts(model, find_artifact("shortlist"))
    assert facts["from"] == "pairs" and facts["file"]["name"] == "pairs.tsv"
    assert facts["options"]["translations"] == 3 and facts["fitted_pairs"] == len(lines)
    answers = set()
    for flags in ([], ["--batch-tokens", 1], ["--schedule", "stream", "--max-rows", 12], ["--threads", 2]):
        result = call("translate", model, text, *USE, "--format", "jsonl", *flags)
        assert result.status == 0, result.err
        answers.add(result.out)
    assert len(answers) == 1
    exact = call("translate", model, text, "--max-length", 12, "--format", "jsonl").out
    assert exact not in answers  # with three translations of each word something is lost


def test_a_list_of_all_words_is_the_exact_layer(call: Run, model: Path, text: Path, tmp_path: Path) -> None:
    loaded = load_model(model, MachineOptions())
    start = np.zeros(len(loaded.source) + 1, np.int32)
    every = Shortlist(np.arange(loaded.vocab_size, dtype=np.int32), start, np.empty(0, np.int32))
    loaded.artifacts.save("shortlist", every, {})
    for flags in (["--beam-size", 1], ["--beam-size", 4, "--num-hypotheses", 3]):
        expected = call("translate", model, text, "--format", "jsonl", *flags)
        got = call("translate", model, text, "--format", "jsonl", *flags, "--output-layer", "shortlist")
        assert (got.status, got.out) == (0, expected.out)
    call("fit", "shortlist", model, "--pairs", text).refused(1, "has a shortlist already; give --overwrite")


def test_misuse(call: Run, model: Path, tiny_model: Path, text: Path, tmp_path: Path) -> None:
    call("translate", tiny_model, text, "--output-layer", "shortlist").refused(1, "has no shortlist", "fit shortlist")
    call("fit", "shortlist", model).refused(2, "give pairs")
    call("fit", "shortlist", model, "--pairs", tmp_path / "none").refused(1, "cannot read")
    call("fit", "shortlist", model, "--pairs", text).refused(1, "line 1: columns 0 to 1 are needed")
    call("fit", "shortlist", model, "--pairs", text, "--source-column", -1).refused(2, "source_column is -1")
    call("fit", "shortlist", model, "--pairs", text, "--rounds", 0).refused(2, "rounds is 0")
    call("fit", "shortlist", model, "--text", text).refused(2, "fidelity is 0.0; it must be above 0 with text")
    pairs = tmp_path / "pairs"
    pairs.write_text("")
    none = call("fit", "shortlist", model, "--pairs", pairs)
    none.refused(1, f"{pairs} has no sentence pair with text on both sides")
    pairs.write_text("ba\tbu\n" * 9)
    call("fit", "shortlist", model, "--pairs", pairs).refused(1, "source tokens", "Nothing was written")
    assert not list(model.glob("shortlist*"))
