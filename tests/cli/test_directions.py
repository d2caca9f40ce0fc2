"""Screens of a multilingual model from the command line: fitted per direction, and translated with."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from support.command import Run

from sharpbeam.output_layers.registry import find_artifact
from sharpbeam.storage.artifacts import read_facts

LANGUAGES = {"aa": 9, "bb": 10, "cc": 11}
FLAGS = ("--method", "kmeans", "--clusters", 4, "--budget", 15, "--fidelity", 0.8, "--tolerance", 0.3)
FLAGS += ("--top-k", 2, "--beam-size", 1, "--keep-best")


def test_screens_per_direction_from_text_to_translation(
    call: Run, make_transformer: Callable[..., Path], text: Path, tmp_path: Path
) -> None:
    model = make_transformer(source_tag="target", languages=LANGUAGES)
    texts = ("--text", f"aa-bb={text}", "--text", f"cc-aa={text}")
    work = ("--work", tmp_path / "vectors")
    result = call("fit", "screen", model, *texts, *FLAGS, *work)
    assert result.status == 0, result.err
    facts = read_facts(model, find_artifact("screen"))
    assert facts["per"] == "direction" and list(facts["screens"]) == ["aa-bb", "cc-aa"]
    assert [file["direction"] for file in facts["screens"]["cc-aa"]["text"]] == ["cc-aa"]
    assert facts["screens"]["aa-bb"]["held_out"] != facts["screens"]["cc-aa"]["held_out"]
    cc_aa = ("--source-language", "cc", "--target-language", "aa")
    result = call("translate", model, text, "--output-layer", "screen", "--stats", *cc_aa)
    assert result.status == 0 and 0 <= json.loads(result.err)["fallback_share"] < 1
    assert json.loads(call("info", model, "--json").out)["screen"] == "per direction: aa-bb, cc-aa"
    languages = ("--source-language", "aa", "--target-language", "cc")
    call("translate", model, text, "--output-layer", "screen", *languages).refused(2, "direction is 'aa-cc'", "aa-bb")
    # The same vectors do for other scopes, and with one more direction.
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "vectors").rglob("*.npy")}
    assert len(kept) == 2
    assert call("fit", "screen", model, *texts, "--text", f"bb-aa={text}", "--per", "target", *FLAGS, *work).status == 0
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    facts = read_facts(model, find_artifact("screen"))
    assert facts["per"] == "target" and [file["direction"] for file in facts["screens"]["aa"]["text"]] == [
        "cc-aa",
        "bb-aa",
    ]
    assert call("fit", "screen", model, *texts, "--per", "all", *FLAGS).status == 0
    facts = read_facts(model, find_artifact("screen"))
    assert json.loads(call("info", model, "--json").out)["screen"] == "for all"
    assert "per" not in facts and facts["clusters"] == 4 and len(facts["text"]) == 2
    assert call("translate", model, text, "--output-layer", "screen", *languages).status == 0


def test_where_no_source_language_is_said_each_target_has_a_screen(
    call: Run, make_transformer: Callable[..., Path], text: Path
) -> None:
    model = make_transformer(source_tag="target", languages=LANGUAGES)
    assert call("fit", "screen", model, "--text", f"bb={text}", *FLAGS).status == 0
    assert read_facts(model, find_artifact("screen"))["per"] == "target"
    assert call("translate", model, text, "--output-layer", "screen", "--target-language", "bb").status == 0
    call("fit", "screen", model, "--text", text, *FLAGS).refused(
        2, "give it with its direction", "target_language is missing"
    )
    each = ("--per", "direction", *FLAGS)
    wrong = call("fit", "screen", model, "--text", f"bb={text}", *each)
    wrong.refused(2, "is 'bb'", "SOURCE-TARGET=FILE", "--per target")


def test_a_shortlist_of_one_direction(
    call: Run, make_transformer: Callable[..., Path], text: Path, tmp_path: Path
) -> None:
    model = make_transformer(source_tag="source", target_tag=True, languages=LANGUAGES)
    languages = ("--source-language", "cc", "--target-language", "aa")
    translations = call("translate", model, text, "--beam-size", 1, *languages).lines
    lines, pairs = text.read_text().splitlines(), tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{a}\t{b}\n" for a, b in zip(lines, translations, strict=True)))
    result = call("fit", "shortlist", model, "--pairs", pairs, "--translations", 200)
    assert result.status == 0, result.err
    listed = call("translate", model, text, "--beam-size", 1, *languages, "--output-layer", "shortlist").lines
    same = sum(map(str.__eq__, listed, translations))
    assert same > 0.8 * len(translations)  # not all: text cut into pieces anew may differ


def test_a_multilingual_model_is_tuned_in_one_direction(
    call: Run, make_transformer: Callable[..., Path], text: Path
) -> None:
    model = make_transformer(source_tag="source", target_tag=True, languages=LANGUAGES)
    job = "tune", model, "--text", text, "--sentences", 3, "--beam-size", 1, "--dry-run"
    call(*job).refused(2, "source_language is missing", "aa, bb, cc")
    languages = ("--source-language", "cc", "--target-language", "aa")
    result = call(*job, *languages)
    assert result.status == 0 and b"int8 exact" in result.out, result.err


def test_directions_that_cannot_be_meant_are_said(
    call: Run, make_transformer: Callable[..., Path], tiny_model: Path, text: Path, tmp_path: Path
) -> None:
    model = make_transformer(source_tag="source", target_tag=True, languages=LANGUAGES)
    call("fit", "screen", model, "--text", text).refused(2, "give it with its direction, as de-en=", "aa, bb, cc")
    call("fit", "screen", model, "--text", f"aa-dd={text}").refused(2, "direction is 'aa-dd'", "aa, bb, cc")
    call("fit", "screen", model, "--text", f"bb={text}").refused(2, "source_language is missing")
    call("fit", "screen", model, "--text", f"aa-bb={tmp_path / 'none'}").refused(1, "cannot read")
    call("fit", "screen", model, "--text", "aa-bb=").refused(2, "text is 'aa-bb='; it must be the name of a file")
    call("fit", "screen", model, "--text", f"aa-bb={text}", "--per", "pair").refused(2, "per is 'pair'")
    call("fit", "screen", tiny_model, "--text", text, "--per", "target").refused(
        2, "per is 'target'", "one direction only"
    )
    call("fit", "screen", tiny_model, "--text", f"aa-bb={text}").refused(1, "cannot read")
