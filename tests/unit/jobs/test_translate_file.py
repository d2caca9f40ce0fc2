"""`translate_file` from Python: the same bytes as the command line, resumable, with progress, and nothing lost."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sharpbeam.api.translator import Translator
from sharpbeam.errors import InputError, OptionError, OutputError
from sharpbeam.jobs import chunks
from sharpbeam.jobs.journal import Journal, job_identity
from sharpbeam.jobs.translate_file import translate_file
from sharpbeam.options.decode import DecodeOptions, MachineOptions

OPTIONS: dict[str, Any] = {"beam_size": 2, "max_length": 12}


@pytest.fixture
def source(tmp_path: Path, sentences: list[str]) -> Path:
    path = tmp_path / "in"
    path.write_text("".join(line + "\n" for line in sentences[:50]))
    return path


def test_lines_are_those_of_the_translator_whatever_the_model_is_given_as(tiny_model: Path, source: Path) -> None:
    translator = Translator(tiny_model)
    expected = [t.text for t in translator.translate(source.read_text().splitlines(), **OPTIONS)]
    counts: list[int] = []
    for model in (tiny_model, str(tiny_model), translator):
        stats = translate_file(model, source, source.with_name("out"), progress=counts.append, restart=True, **OPTIONS)
        assert source.with_name("out").read_text().splitlines() == expected
        assert (stats.sentences, sum(counts), stats.steps > 0) == (50, 50, True)
        assert json.loads(stats.json())["sentences"] == 50
        counts.clear()


def test_options_may_be_built_once_and_changed_by_name(tiny_model: Path, source: Path) -> None:
    options = DecodeOptions.of(beam_size=3, max_length=9)
    out = source.with_name("out")
    translate_file(tiny_model, source, out, options=options, num_hypotheses=2, format="jsonl")
    records = [json.loads(line) for line in out.read_text().splitlines()]
    expected = Translator(tiny_model).translate(source.read_text().splitlines(), options=options, num_hypotheses=2)
    assert [[h["text"] for h in r["hypotheses"]] for r in records] == [[h.text for h in t.hypotheses] for t in expected]


def test_json_with_flags_has_confidence_and_unsure_words(tiny_model: Path, source: Path) -> None:
    out = source.with_name("out")
    translate_file(tiny_model, source, out, format="jsonl", flags=True, **OPTIONS)
    records = [json.loads(line) for line in out.read_text().splitlines()]
    texts = [record["hypotheses"][0]["text"] for record in records]
    assert all(0 <= record["confidence"] <= 1 for record in records)
    words = [text[start:end] for record, text in zip(records, texts, strict=True) for start, end in record["unsure"]]
    assert words and all(word.isalnum() for word in words)


def test_several_files_are_one_job(tiny_model: Path, source: Path) -> None:
    out, other = source.with_name("out"), source.with_name("other")
    other.write_text("Bade ki.\n")
    assert translate_file(tiny_model, [source, str(other)], out, **OPTIONS).sentences == 51


def test_one_pattern_is_kept_as_it_is_in_a_list(tiny_model: Path, tmp_path: Path) -> None:
    (source := tmp_path / "in").write_text("We like the green house.\n")
    kept = []
    for keep in ("green", ["green"]):
        translate_file(tiny_model, source, tmp_path / "out", keep=keep, restart=True, **OPTIONS)
        kept.append((tmp_path / "out").read_text())
    assert kept[0] == kept[1]


def test_text_in_another_encoding(tiny_model: Path, tmp_path: Path) -> None:
    lines = "Bade ki.\nSchöne Grüße.\n"
    translator, out = Translator(tiny_model), tmp_path / "out"
    outputs = []
    for name in ("utf-8", "latin-1"):
        (tmp_path / name).write_bytes(lines.encode(name))
        translate_file(translator, tmp_path / name, out, encoding=name, restart=True, **OPTIONS)
        outputs.append(out.read_bytes())
    assert outputs[0] == outputs[1]
    with pytest.raises(InputError, match=r"line 2: byte 4 \(0xf6\) is not valid UTF-8; convert the text"):
        translate_file(translator, tmp_path / "latin-1", tmp_path / "other", **OPTIONS)
    with pytest.raises(OptionError, match="encoding is 'utf-16'"):
        translate_file(translator, tmp_path / "latin-1", out, encoding="utf-16", **OPTIONS)


def test_an_interrupted_run_is_resumed_from_python(
    tiny_model: Path, source: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    out, translator = source.with_name("out"), Translator(tiny_model)
    translate_file(translator, source, out, **OPTIONS)
    whole = out.read_bytes()
    out.unlink()
    monkeypatch.setattr(chunks, "CHUNK", 8)

    def interrupt(number: int) -> None:
        counts.append(number)
        if len(counts) == 20:
            raise KeyboardInterrupt

    counts: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        translate_file(translator, source, out, progress=interrupt, **OPTIONS)
    assert "16 lines are kept in" in caplog.text and "resume=True" in caplog.text
    with pytest.raises(OutputError, match=r"holds an interrupted run; continue it with .*resume=True"):
        translate_file(translator, source, out, **OPTIONS)
    with pytest.raises(OptionError, match="beam_size was 2 and is 3"):
        translate_file(translator, source, out, resume=True, **OPTIONS | {"beam_size": 3})
    counts.clear()
    with pytest.raises(KeyboardInterrupt):
        translate_file(translator, source, out, resume=True, progress=interrupt, **OPTIONS)
    assert "run the same job again to continue" in caplog.text
    seen: list[int] = []
    stats = translate_file(translator, source, out, resume=True, progress=seen.append, **OPTIONS)
    assert (stats.sentences, seen[0], sum(seen)) == (50 - seen[0], seen[0], 50) and seen[0] >= 16
    assert out.read_bytes() == whole
    assert sorted(path.name for path in source.parent.iterdir()) == ["in", "out"]


@pytest.fixture
def interrupted(tiny_model: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The result of a run that was interrupted after 16 of 50 lines."""
    with monkeypatch.context() as patch:
        patch.setattr(chunks, "next_chunk", lambda items, seconds: 16)
        seen: list[int] = []

        def stop(number: int) -> None:
            seen.append(number)
            if len(seen) > 16:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            translate_file(tiny_model, source, source.with_name("out"), progress=stop, **OPTIONS)
    return source.with_name("out")


def test_a_part_that_was_changed_is_noticed(tiny_model: Path, source: Path, interrupted: Path) -> None:
    part = interrupted.with_name("out.part")
    data = part.read_bytes()
    part.write_bytes(b"X" + data[1:])
    with pytest.raises(OutputError, match=r"out\.part differs from what its journal says"):
        translate_file(tiny_model, source, interrupted, resume=True, **OPTIONS)
    part.write_bytes(data)
    assert translate_file(tiny_model, source, interrupted, resume=True, **OPTIONS).sentences == 34


@pytest.mark.parametrize(
    "change", [{"lines": "16"}, {"job": 5}, {"bytes": -1}, {"lines": True}, {"input_sha256": None}, {"extra": 1}]
)
def test_a_journal_of_other_types_is_damaged(
    tiny_model: Path, source: Path, interrupted: Path, change: dict[str, Any]
) -> None:
    journal = interrupted.with_name("out.part.json")
    journal.write_text(json.dumps(json.loads(journal.read_text()) | change))
    assert Journal.load(journal) is None
    with pytest.raises(OutputError, match=r"out\.part\.json is missing or damaged"):
        translate_file(tiny_model, source, interrupted, resume=True, **OPTIONS)


@pytest.mark.parametrize("name", ["out.part", "out.part.json"])
def test_no_link_is_written_through(tiny_model: Path, source: Path, name: str) -> None:
    victim = source.with_name("victim")
    victim.write_text("precious")
    source.with_name(name).symlink_to(victim)
    if name == "out.part":
        with pytest.raises(OutputError, match=r"cannot write .*out\.part"):
            translate_file(tiny_model, source, source.with_name("out"), **OPTIONS)
    else:
        assert translate_file(tiny_model, source, source.with_name("out"), **OPTIONS).sentences == 50
    assert victim.read_text() == "precious"


def test_a_pipe_in_the_place_of_the_part_is_refused(tiny_model: Path, source: Path) -> None:
    os.mkfifo(source.with_name("out.part"))
    with pytest.raises(OutputError, match=r"out\.part"):
        translate_file(tiny_model, source, source.with_name("out"), **OPTIONS)


def test_permissions_of_a_result_that_is_replaced_are_kept(tiny_model: Path, source: Path) -> None:
    out = source.with_name("out")
    out.write_text("old")
    out.chmod(0o600)
    translate_file(tiny_model, source, out, **OPTIONS)
    assert (out.stat().st_mode & 0o777, out.read_text().count("\n")) == (0o600, 50)


def test_standard_output_may_be_replaced_by_text(tiny_model: Path, source: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()) as out:
        translate_file(tiny_model, source, None)
    assert out.getvalue().count("\n") == len(source.read_text().splitlines())


def test_a_job_is_resumed_after_what_it_would_choose_was_tuned(tiny_model: Path, source: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    before = job_identity(Translator(folder).loaded, DecodeOptions())
    (folder / "tuned.json").write_text(json.dumps({"compute_type": before["compute_type"], "ms": 3}))
    assert job_identity(Translator(folder).loaded, DecodeOptions()) == before


def test_wrong_use_is_named(tiny_model: Path, source: Path) -> None:
    out, unknown = source.with_name("out"), {"beam_sise": 3}
    with pytest.raises(OptionError, match=r"unknown option 'beam_sise'. Did you mean 'beam_size'"):
        translate_file(tiny_model, source, out, **unknown)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="format is 'xml'; it must be text, jsonl or pharaoh"):
        translate_file(tiny_model, source, out, format="xml")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="format is 'text'; it must be jsonl or pharaoh with return_attention"):
        translate_file(tiny_model, source, out, return_attention=True)
    with pytest.raises(OptionError, match=r"machine is .* left out with a Translator"):
        translate_file(Translator(tiny_model), source, out, machine=MachineOptions())
    with pytest.raises(InputError, match="cannot read"):
        translate_file(tiny_model, source.with_name("none"), out)
    assert [path.name for path in source.parent.iterdir()] == ["in"]
