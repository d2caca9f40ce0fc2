"""`sharpbeam translate`: lines in = lines out, in order, whatever the lines are and however they come."""

from __future__ import annotations

import gzip
import json
import os
import pty
from contextlib import suppress
from pathlib import Path

import pytest
from support.command import Run, without_flags

from sharpbeam import Translator
from sharpbeam.cli.main import main
from sharpbeam.jobs import chunks

ODD_LINES = {
    "empty": "",
    "spaces": "   ",
    "tabs and no-break spaces": "\t\u00a0\u3000 ",
    "20,000 characters": "bade ki lomu " * 1539,
    "20,000 characters without a space": "bade" * 5000,
    "NUL": "ba\0de ki",
    "only NUL": "\0",
    "control characters": "".join(map(chr, [*range(1, 10), *range(11, 32), 127])),
    "line separators of Unicode": "ba\u2028de\u2029ki\u0085lo\x0bmu\x0c",
    "carriage return inside": "ba\rde",
    "characters never seen": "猫が好き 🦆 Ωμέγα",
    "combining characters": "a\u0301\u0302\u0303" * 50,
    "right to left": "\u202e\u05e9\u05dc\u05dd\u202c",
    "names of special pieces": "<s> </s> <unk> <pad>",
}


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """All odd lines in one file, the last without a line feed."""
    path = tmp_path / "odd"
    path.write_bytes("\n".join(ODD_LINES.values()).encode())
    return path


def test_odd_lines_give_one_line_each(call: Run, tiny_model: Path, odd: Path) -> None:
    result = call("translate", tiny_model, odd, "--raw", "--beam-size", 2, "--max-length", 12)
    assert result.status == 0, result.err
    answers = dict(zip(ODD_LINES, result.lines, strict=True))
    assert [answers["empty"], answers["spaces"], answers["tabs and no-break spaces"]] == [""] * 3
    assert answers["20,000 characters"] and answers["characters never seen"]
    assert result.err.count("\n") == 2  # the two long lines are cut, and nothing else is said
    for number in (4, 5):
        assert f"line {number} is longer than max_input_length or the model allow; its end was cut off." in result.err


@pytest.mark.parametrize(("data", "lines"), [(b"", 0), (b"\n", 1), (b"ba", 1), (b"ba\r\n", 1), (b"\n\n\nba", 4)])
def test_lines_in_are_lines_out(call: Run, tiny_model: Path, tmp_path: Path, data: bytes, lines: int) -> None:
    (tmp_path / "in").write_bytes(data)
    assert len(call("translate", tiny_model, tmp_path / "in", "--max-length", 5).lines) == lines


def test_line_ends_do_not_change_the_answer(call: Run, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "unix").write_bytes(b"Bade ki.\nLomu.\n")
    (tmp_path / "dos").write_bytes(b"\xef\xbb\xbfBade ki.\r\nLomu.\r\n")
    unix = call("translate", tiny_model, tmp_path / "unix")
    assert unix.out == call("translate", tiny_model, tmp_path / "dos").out
    assert len(unix.lines) == 2


def test_file_gzip_stdin_and_output_say_the_same(run: Run, call: Run, tiny_model: Path, text: Path) -> None:
    expected = call("translate", tiny_model, text)
    assert len(expected.lines) == 60
    packed = text.with_suffix(".gz")
    packed.write_bytes(gzip.compress(text.read_bytes()))
    assert (
        call("translate", tiny_model, packed).out == expected.out == call("translate", tiny_model, text, "-o", "-").out
    )
    assert run("translate", tiny_model, stdin=text.read_bytes()).out == expected.out
    result = call("translate", tiny_model, text, "--output", text.with_name("out"))
    assert (result.status, result.out, result.err) == (0, b"", "")
    assert text.with_name("out").read_bytes() == expected.out
    assert sorted(path.name for path in text.parent.iterdir()) == ["out", "text", "text.gz"]


def test_several_files_are_one_text(call: Run, tiny_model: Path, text: Path) -> None:
    once, twice = call("translate", tiny_model, text), call("translate", tiny_model, text, text)
    assert twice.out == once.out * 2


@pytest.mark.parametrize("options", [("--threads", 3), ("--batch-tokens", 7), ("--isa", "scalar")])
def test_how_it_is_computed_does_not_change_the_answer(
    call: Run, tiny_model: Path, text: Path, options: tuple[str, object]
) -> None:
    plain = ("translate", tiny_model, text, "--format", "jsonl")
    assert call(*plain, *options).out == call(*plain).out


@pytest.mark.parametrize("size", [1, 7, 60])
def test_chunks_do_not_change_the_answer(
    call: Run, tiny_model: Path, text: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = ("translate", tiny_model, text, "--format", "jsonl")
    expected = call(*plain)
    monkeypatch.setattr(chunks, "CHUNK", size)
    assert call(*plain).out == expected.out


def test_the_options_reach_the_translator(call: Run, tiny_model: Path, text: Path) -> None:
    options = {"beam_size": 3, "length_penalty": 0.5, "early_stopping": "never", "min_length": 2, "max_length": 9}
    flags = [word for name, value in options.items() for word in ("--" + name.replace("_", "-"), value)]
    expected = Translator(tiny_model).translate(text.read_text().split("\n")[:-1], **options)
    assert call("translate", tiny_model, text, *flags).lines == [translation.text for translation in expected]
    assert call("translate", tiny_model, text, *flags).out != call("translate", tiny_model, text).out


def test_n_best_gives_n_lines_for_each_line(call: Run, tiny_model: Path, text: Path) -> None:
    result = call("translate", tiny_model, text, "--num-hypotheses", 3)
    expected = Translator(tiny_model).translate(text.read_text().split("\n")[:-1], num_hypotheses=3)
    answers = [[h.text for h in t.hypotheses] if t.source else [""] * 3 for t in expected]
    assert result.lines == [answer for three in answers for answer in three]
    assert len(result.lines) == 3 * 60


def test_jsonl_holds_index_source_and_scores(
    call: Run, tiny_model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 25)
    result = call("translate", tiny_model, text, "--format", "jsonl", "--num-hypotheses", 2, "--length-penalty", 0)
    records = [json.loads(line) for line in result.lines]
    assert [record["index"] for record in records] == list(range(60))
    assert [record["source"] for record in records] == text.read_text().split("\n")[:-1]
    for record in records:
        assert len(record["hypotheses"]) == (2 if record["source"] else 1)
        for hypothesis in record["hypotheses"]:
            assert hypothesis["score"] == pytest.approx(sum(hypothesis["token_scores"]), abs=1e-4)


def test_flags_are_counted_on_stderr_and_shown_on_demand(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "text").write_text("Bade ki.\nBade.\nKi lomu.\n")
    arguments = ["translate", str(tiny_model), str(tmp_path / "text"), "--max-length", "20", "--num-hypotheses", "2"]
    monkeypatch.setattr("sharpbeam.decoding.results.Translation.flags", ())
    assert main(arguments) == 0
    plain = capsys.readouterr()
    assert plain.err == ""
    flags = {"Bade.": ("loop", "number"), "Ki lomu.": ("loop",)}
    shown = property(lambda translation: flags.get(translation.source, ()))
    monkeypatch.setattr("sharpbeam.decoding.results.Translation.flags", shown)
    assert main(arguments) == 0
    result = capsys.readouterr()
    warning = "2 of 3 translations have flags (loop 2, number 1); the first is that of line 2."
    assert (result.out, result.err) == (plain.out, f"sharpbeam: {warning}\n")
    assert main([*arguments, "--flags"]) == 0
    columns = [line.rsplit("\t", 1) for line in capsys.readouterr().out.splitlines()]
    assert [text for text, _ in columns] == plain.out.splitlines()
    assert [column for _, column in columns] == ["", "", "loop number", "", "loop", ""]
    assert main([*arguments, "--format", "jsonl"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record.get("flags") for record in records] == [None, ["loop", "number"], ["loop"]]
    assert main([*arguments, "--flags", "--format", "pharaoh"]) == 2


def test_stats_are_one_json_line_on_stderr(call: Run, tiny_model: Path, text: Path) -> None:
    result = call("translate", tiny_model, text, "--stats")
    stats = json.loads(result.err)
    assert stats["sentences"] == 60
    assert stats["source_words"] == len(text.read_text().split())
    assert stats["target_words"] == len(result.out.decode().split())
    assert stats["words_per_second"] == pytest.approx(stats["source_words"] / stats["seconds"], rel=0.02)
    assert stats["expansions"] > stats["steps"] > 0
    assert "merging_rate" not in stats
    assert None not in stats.values()
    assert 10 < stats["peak_memory_mib"] < 4000


def test_cube_pruning_says_its_merging_rate(call: Run, tiny_model: Path, text: Path) -> None:
    flags = ("--cube-pruning", "approximate", "--beam-size", 12, "--max-length", 12, "--stats")
    every = call("translate", tiny_model, text, *flags)
    assert json.loads(every.err)["merging_rate"] > 1.05
    raw = call("translate", tiny_model, text, *flags, "--no-normalize")
    assert json.loads(raw.err)["merging_rate"] > 1.05
    assert raw.out != every.out


@pytest.mark.parametrize("shown", [False, True])
def test_the_progress_bar_is_for_terminals(run: Run, tiny_model: Path, text: Path, shown: bool) -> None:
    terminal, its_end = pty.openpty()
    with os.fdopen(terminal, "rb") as screen, os.fdopen(its_end, "wb") as stderr:
        arguments = ("translate", tiny_model, text, "--output", text.with_name("out"))
        result = run(*arguments, stderr=stderr) if shown else run(*arguments)
        assert result.status == 0
        assert result.err == ""
        if shown:
            stderr.close()
            seen = b""
            with suppress(OSError):  # the end; a slow run has drawn more than one read returns
                while part := screen.read1(100_000):
                    seen += part
            assert b"translating" in seen
            assert b"60 of 60 sentences" in seen and b"a second" in seen and b"left" in seen


def test_on_a_terminal_the_translations_are_the_progress(run: Run, call: Run, tiny_model: Path, text: Path) -> None:
    text.write_text("".join(text.read_text().splitlines(keepends=True)[:4]))
    arguments = ("translate", tiny_model, text, "--max-length", 9)  # short: the terminal is not read while it runs
    terminal, its_end = pty.openpty()
    with os.fdopen(terminal, "rb") as screen, os.fdopen(its_end, "wb") as both:
        assert run(*arguments, stdout=both, stderr=both).status == 0
        seen = without_flags(screen.read1(100_000).decode()).encode()
    assert seen == call(*arguments).out.replace(b"\n", b"\r\n")


def test_max_length_ends_every_answer(call: Run, tiny_model: Path, text: Path) -> None:
    result = call("translate", tiny_model, text, "--max-length", 3, "--min-length", 2, "--format", "jsonl")
    counts = {
        len(hypothesis["token_scores"])
        for record in map(json.loads, result.lines)
        for hypothesis in record["hypotheses"]
        if record["source"]
    }
    assert counts == {3}


def test_a_dash_is_standard_input(run: Run, call: Run, tiny_model: Path, text: Path) -> None:
    both = run("translate", tiny_model, text, "-", stdin=b"Bade ki.\n")
    assert both.status == 0, both.err
    assert both.out == call("translate", tiny_model, text).out + run("translate", tiny_model, stdin=b"Bade ki.\n").out


def test_every_line_begins_with_the_prefix(call: Run, tiny_model: Path, text: Path) -> None:
    result = call("translate", tiny_model, text, "--target-prefix", "Bade ki", "--max-length", 20)
    lines = text.read_text().split("\n")[:-1]
    assert all(answer.startswith("Bade ki") == bool(line) for line, answer in zip(lines, result.lines, strict=True))
    call("translate", tiny_model, text, "--target-prefix", "Bade ki", "--max-length", 1).refused(1, "target prefix 0")


def test_terms_of_a_glossary_are_in_the_lines(call: Run, tiny_model: Path, text: Path, tmp_path: Path) -> None:
    terms, out = tmp_path / "terms.tsv", tmp_path / "out"
    terms.write_text("bade\tmike nodi\n")
    text.write_text("Bade ki.\nKi.\n")
    job = "translate", tiny_model, text, "--output", out, "--max-length", 30, "--glossary", terms
    assert call(*job).status == 0
    assert [line.lower().count("mike nodi") for line in out.read_text().splitlines()] == [1, 0]
    terms.write_text("bade\tlu nodi\n")
    assert call(*job, "--resume").status == 0 and "mike nodi" in out.read_text().lower()  # it was complete
    assert call(*job, "--restart").status == 0
    assert [line.lower().count("lu nodi") for line in out.read_text().splitlines()] == [1, 0]


def test_samples_do_not_depend_on_the_chunk(
    call: Run, tiny_model: Path, text: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--sampling", "--num-hypotheses", 7, "--temperature", 1.5, "--seed", 9, "--max-length", 12)
    reference = call("translate", tiny_model, text, *flags)
    assert len(reference.lines) == 7 * 60 and len(set(reference.lines)) > 200
    monkeypatch.setattr(chunks, "CHUNK", 7)
    assert call("translate", tiny_model, text, *flags).out == reference.out
    call("translate", tiny_model, text, "--top-k", 3).refused(2, "top_k is 3", "unless sampling")


def test_attention_in_json(call: Run, tiny_model: Path, tmp_path: Path, sentences: list[str]) -> None:
    (tmp_path / "in").write_text(f"{sentences[0]}\n\n")
    command = ["translate", tiny_model, tmp_path / "in", "--max-length", 8, "--return-attention"]
    reference = Translator(tiny_model).translate([sentences[0], ""], return_attention=True, max_length=8)
    for line, translation in zip(call(*command, "--format", "jsonl").lines, reference, strict=True):
        record = json.loads(line)
        (answer,) = record["hypotheses"]
        assert tuple(record["source_tokens"]) == translation.source_tokens
        assert tuple(answer["tokens"]) == translation.tokens
        assert len(answer["attention"]) == len(answer["token_scores"])
        for row, own in zip(answer["attention"], translation.attention, strict=True):
            assert row == pytest.approx(own, abs=1e-6)
        assert answer["alignment"] == " ".join(f"{s}-{t}" for s, t in translation.alignment)
    call(*command).refused(2, "format is 'text'; it must be jsonl or pharaoh with return_attention")


def test_a_plus_between_models_is_an_ensemble(call, tiny_model, text):
    alone, twice = call("translate", tiny_model, text), call("translate", f"{tiny_model}+{tiny_model}", text)
    assert twice.status == 0 and twice.out == alone.out
    missing = call("translate", f"{tiny_model}+nowhere", text)
    assert missing.status == 1 and "no model 'nowhere'" in missing.err


def test_pharaoh_adds_the_alignment_to_each_line(call: Run, tiny_model: Path, text: Path) -> None:
    plain = call("translate", tiny_model, text, "--num-hypotheses", 2)
    output = call("translate", tiny_model, text, "--num-hypotheses", 2, "--format", "jsonl", "--return-attention")
    outcome = call("translate", tiny_model, text, "--num-hypotheses", 2, "--format", "pharaoh")
    hypotheses = [h for line in output.out.splitlines() for h in json.loads(line)["hypotheses"]]
    lines = [line.split(" ||| ") for line in outcome.out.decode().splitlines()]
    assert [message for message, _ in lines] == plain.out.decode().splitlines()
    reference = [h.get("alignment", "") for h in hypotheses]
    assert [alignment for _, alignment in lines if alignment] == [alignment for alignment in reference if alignment]
    assert any(reference)
