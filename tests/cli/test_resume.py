"""`--output` survives kill -9 at any moment: `--resume` gives the bytes of an uninterrupted run."""

from __future__ import annotations

import errno
import fcntl
import json
import math
import os
import random
import signal
import time
from pathlib import Path

import pytest
from support.command import Run, start

from sharpbeam import Translator
from sharpbeam.jobs import chunks
from sharpbeam.jobs.output import OutputFile
from sharpbeam.storage.model_folder import read_config, read_tensors, save_model

KILLS = 5


@pytest.fixture
def source(tmp_path: Path, sentences: list[str]) -> Path:
    """300 lines."""
    path = tmp_path / "in"
    path.write_text("".join(line + "\n" for line in sentences))
    return path


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 20)
    monkeypatch.setattr(chunks, "FIRST_CHUNK", 20)


def arguments(model: Path, source: Path) -> tuple[object, ...]:
    return ("translate", model, source, "--output", source.with_name("out"), "--format", "jsonl")


def test_kill_at_random_moments(call: Run, tiny_model: Path, source: Path) -> None:
    """Each run is killed after a random time, the first one with lines that are done; the last is left to finish."""
    command = arguments(tiny_model, source)
    output = source.with_name("out")
    assert call(*command).status == 0
    whole = output.read_bytes()
    output.unlink()
    draw = random.Random(7)
    journal = source.with_name("out.part.json")
    reached = []
    for number in range(KILLS):
        before = journal.stat().st_mtime_ns if journal.exists() else 0
        process = start(*command, "--resume", chunk=2, most=25)  # all of them together do not come to the end
        while not (journal.exists() and journal.stat().st_mtime_ns != before) or (
            number == 0 and '"lines": 0' in journal.read_text()
        ):
            assert process.poll() is None
            time.sleep(0.002)  # it starts and loads the model
        time.sleep(draw.uniform(0.0, 0.15))
        process.kill()
        _, message = process.communicate()
        assert process.returncode == -signal.SIGKILL, message
        reached.append(json.loads(journal.read_text())["lines"])
    assert reached == sorted(reached)
    assert reached[0] > 0 and reached[-1] < 300
    assert call(*command, "--resume").status == 0
    assert output.read_bytes() == whole
    assert sorted(path.name for path in source.parent.iterdir()) == ["in", "out"]


@pytest.fixture
def interrupted(
    call: Run, tiny_model: Path, source: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> tuple[object, ...]:
    """A command line whose run died after 60 of 300 lines, as a kill leaves it."""
    command = arguments(tiny_model, source)
    commit = OutputFile.commit

    def dying(self: OutputFile) -> None:
        if self._journal.lines == 60:
            raise KeyboardInterrupt
        commit(self)

    with monkeypatch.context() as patch:
        patch.setattr(OutputFile, "commit", dying)
        assert call(*command).status == 130
    assert json.loads(source.with_name("out.part.json").read_text())["lines"] == 60
    return command


@pytest.fixture
def whole(call: Run, tiny_model: Path, source: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The result of the uninterrupted run."""
    return call("translate", tiny_model, source, "--format", "jsonl").out


@pytest.mark.parametrize(("seconds", "sizes"), [(math.inf, [16, 64, 220]), (1e-9, [16] + [1] * 284)])
def test_chunks_end_by_time_as_well_as_by_lines(
    call: Run,
    tiny_model: Path,
    source: Path,
    whole: bytes,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    sizes: list[int],
) -> None:
    """Where all the time of the world is left they grow to what memory may hold; the bytes are the same."""
    written: list[int] = []
    commit = OutputFile.commit

    def counting(self: OutputFile) -> None:
        written.append(len(self._lines))
        commit(self)

    monkeypatch.setattr(chunks, "CHUNK_SECONDS", seconds)
    monkeypatch.setattr(OutputFile, "commit", counting)
    assert call(*arguments(tiny_model, source)).status == 0
    assert written == sizes
    assert source.with_name("out").read_bytes() == whole


def test_a_chunk_takes_about_as_long_as_it_should() -> None:
    assert chunks.next_chunk(16, 0.01) == 64  # lines may become longer
    assert chunks.next_chunk(512, 0.01) == chunks.CHUNK == 512
    assert chunks.next_chunk(100, 20.0) == 50
    assert chunks.next_chunk(16, 1e6) == 1


def test_ctrl_c_before_the_first_chunk_says_that_nothing_is_kept(
    call: Run, tiny_model: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Translator, "translate_iter", interrupt)
    result = call(*arguments(tiny_model, source))
    message = "sharpbeam: no line was done yet, so nothing is kept.\nsharpbeam: interrupted.\n"
    assert (result.status, result.err) == (130, message)
    assert [path.name for path in source.parent.iterdir()] == ["in"]


def test_only_the_rest_is_translated(call: Run, source: Path, interrupted: tuple[object, ...], whole: bytes) -> None:
    result = call(*interrupted, "--resume", "--stats")
    assert json.loads(result.err)["sentences"] == 240
    assert source.with_name("out").read_bytes() == whole


@pytest.mark.parametrize("cut", [0, 1, 500])
def test_what_a_kill_left_half_written_is_cut_off(
    call: Run, source: Path, interrupted: tuple[object, ...], whole: bytes, cut: int
) -> None:
    with source.with_name("out.part").open("ab") as part:
        part.write(b'{"index": 60, "so' * cut)
    assert call(*interrupted, "--resume").status == 0
    assert source.with_name("out").read_bytes() == whole


def test_nothing_is_done_twice_at_the_end(
    call: Run, source: Path, interrupted: tuple[object, ...], whole: bytes
) -> None:
    """Killed after the last line and before the rename."""
    text = source.read_text().splitlines(keepends=True)
    source.write_text("".join(text[:60]))
    assert call(*interrupted, "--resume").status == 0
    assert source.with_name("out").read_bytes() == b"".join(whole.splitlines(keepends=True)[:60])


def test_a_second_run_must_say_what_it_wants(
    call: Run, source: Path, interrupted: tuple[object, ...], whole: bytes
) -> None:
    part = source.with_name("out.part").read_bytes()
    call(*interrupted).refused(1, "holds an interrupted run", "--resume", "--restart")
    call(*interrupted, "--resume", "--restart").refused(2, "exclude each other")
    assert source.with_name("out.part").read_bytes() == part
    assert call(*interrupted, "--restart").status == 0
    assert source.with_name("out").read_bytes() == whole


def test_resume_with_nothing_to_resume_begins(call: Run, tiny_model: Path, source: Path, whole: bytes) -> None:
    command = arguments(tiny_model, source)
    first = call(*command, "--resume")
    assert (first.status, first.err) == (0, "")
    assert source.with_name("out").read_bytes() == whole


def test_what_is_complete_is_not_translated_again(call: Run, tiny_model: Path, source: Path) -> None:
    command, output = arguments(tiny_model, source), source.with_name("out")
    assert call(*command).status == 0
    before, text = output.stat(), output.read_bytes()
    result = call(*command, "--resume")
    message = f"sharpbeam: {output} is there, with nothing to resume. To translate it again, say --restart instead.\n"
    assert (result.status, result.err) == (0, message)
    after = output.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert sorted(path.name for path in source.parent.iterdir()) == ["in", "out"]
    os.utime(source, ns=(after.st_atime_ns, after.st_mtime_ns + 1))
    call(*command, "--resume").refused(2, f"{output} is older than {source}", "--restart")
    assert sorted(path.name for path in source.parent.iterdir()) == ["in", "out"]
    assert call(*command, "--restart").err == ""
    assert output.stat().st_ino != before.st_ino
    assert output.read_bytes() == text


def test_a_kill_before_the_first_chunk_leaves_nothing_in_the_way(
    call: Run, tiny_model: Path, source: Path, whole: bytes
) -> None:
    """While the model is loaded there is an empty part and no journal yet."""
    source.with_name("out.part").touch()
    assert call(*arguments(tiny_model, source), "--resume").status == 0
    assert source.with_name("out").read_bytes() == whole


@pytest.mark.parametrize("end", ["killed", "interrupted"])
def test_a_run_without_a_line_over_an_old_result_is_not_complete(
    call: Run, tiny_model: Path, source: Path, whole: bytes, end: str
) -> None:
    command, output, part = arguments(tiny_model, source), source.with_name("out"), source.with_name("out.part")
    output.write_text("of another job\n")
    if end == "killed":
        part.touch()
    else:
        with pytest.raises(KeyboardInterrupt), OutputFile(output) as file:
            file.begin(lambda: {"beam_size": 12})
            raise KeyboardInterrupt
    assert call(*command, "--resume").status == 0
    assert output.read_bytes() == whole and not part.exists()


def test_a_file_system_without_locks_is_written_to(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", absent)
    output = source.with_name("out")
    with OutputFile(output) as file:
        file.begin(dict)
        file.write("Bu.", "Bu.\n")
        file.finish()
    assert output.read_text() == "Bu.\n"


@pytest.mark.parametrize(
    ("flag", "part"),
    [
        (("--beam-size", 4), "beam_size was 5 and is 4"),
        (("--length-penalty", 0.5), "length_penalty was 1.0 and is 0.5"),
        (("--max-length", 9), "max_length was 256 and is 9"),
        (("--max-input-length", 9), "max_input_length was 1024 and is 9"),
        (("--format", "text"), "format was 'jsonl' and is 'text'"),
        (("--errors", "replace"), "errors was 'strict' and is 'replace'"),
        (("--precomputed-embeddings", 50), "precomputed_embeddings was 0 and is 50"),
        (("--precomputed-attention",), "precomputed_attention was False and is True"),
        (("--no-merge-states",), "merge_states was True and is False"),
        (("--isa", "plain"), "plain was False and is True"),
    ],
)
def test_other_options_cannot_resume(
    call: Run, source: Path, interrupted: tuple[object, ...], whole: bytes, flag: tuple[object, ...], part: str
) -> None:
    call(*interrupted, *flag, "--resume").refused(2, "cannot resume", part, "--restart")
    same = ("--threads", 2, "--batch-tokens", 90, "--isa", "scalar")  # these change nothing
    assert call(*interrupted, "--resume", *same).status == 0
    assert source.with_name("out").read_bytes() == whole


def test_another_model_cannot_resume(
    call: Run, tiny_model: Path, tmp_path: Path, interrupted: tuple[object, ...]
) -> None:
    other = tmp_path / "other"
    config = read_config(tiny_model)
    tensors = read_tensors(tiny_model, config)
    tensors["output_bias"] = tensors["output_bias"] + 1
    save_model(other, config, tensors, {"source.spm": (tiny_model / "source.spm").read_bytes()}, "# other\n")
    verb, _, *rest = interrupted
    call(verb, other, *rest, "--resume").refused(2, "cannot resume", "model was")


@pytest.mark.parametrize("change", ["first line", "last done line", "cut", "one line less"])
def test_other_input_cannot_resume(call: Run, source: Path, interrupted: tuple[object, ...], change: str) -> None:
    lines = source.read_text().splitlines(keepends=True)
    part = source.with_name("out.part").read_bytes()
    if change == "first line":
        lines[0] = "Bu.\n"
    elif change == "last done line":
        lines[59] = "Bu.\n"
    elif change == "cut":
        del lines[59:]
    else:
        del lines[3]
    source.write_text("".join(lines))
    call(*interrupted, "--resume").refused(1, "the first 60 input lines are not those of the interrupted run")
    assert source.with_name("out.part").read_bytes() == part


@pytest.mark.parametrize("damage", ["gone", "cut", "no object", "later version"])
def test_a_damaged_journal_is_said(call: Run, source: Path, interrupted: tuple[object, ...], damage: str) -> None:
    journal = source.with_name("out.part.json")
    text = journal.read_text()
    if damage == "gone":
        journal.unlink()
    else:
        journal.write_text(
            {"cut": text[:40], "no object": "7", "later version": text.replace('"version": 1', '"version": 2')}[damage]
        )
    call(*interrupted, "--resume").refused(1, "out.part.json is missing or damaged", "--restart")
    call(*interrupted).refused(1, "holds an interrupted run")


def test_a_part_shorter_than_its_journal_is_said(call: Run, source: Path, interrupted: tuple[object, ...]) -> None:
    with source.with_name("out.part").open("r+b") as part:
        part.truncate(100)
    call(*interrupted, "--resume").refused(1, "shorter than its journal says", "--restart")


def test_two_runs_cannot_write_one_file(call: Run, tiny_model: Path, source: Path) -> None:
    other = OutputFile(source.with_name("out"), resume=False, restart=False)
    with other:
        assert other.begin(dict) == 0
        call(*arguments(tiny_model, source), "--resume").refused(1, "is being written by another process")


def test_a_run_that_ends_while_another_begins_keeps_its_result(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other run renames its part after this one has opened it, and before this one has the lock."""
    output, part = source.with_name("out"), source.with_name("out.part")
    part.write_text("done\n")
    flock = fcntl.flock

    def late(file: object, operation: int) -> None:
        if not output.exists():
            part.rename(output)
        flock(file, operation)  # type: ignore[arg-type]

    monkeypatch.setattr(fcntl, "flock", late)
    ours = OutputFile(output, resume=False, restart=True)
    with ours:
        assert ours.begin(dict) == 0
        ours.write("Bu.", "Bu.\n")
        ours.commit()
        assert (output.read_text(), part.read_text()) == ("done\n", "Bu.\n")


def test_a_link_stays_a_link(call: Run, tiny_model: Path, source: Path, whole: bytes) -> None:
    (source.parent / "folder").mkdir()
    source.with_name("out").symlink_to(source.parent / "folder" / "real")
    assert call(*arguments(tiny_model, source)).status == 0
    assert source.with_name("out").is_symlink()
    assert (source.parent / "folder" / "real").read_bytes() == whole
