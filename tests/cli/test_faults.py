"""Bad input and faults: one clear line on stderr, no traceback, and nothing half-written that looks whole."""

from __future__ import annotations

import gzip
import json
import os
import pty
import re
import resource
import shlex
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from support.command import COMMAND, TIMEOUT, Run, environment, start

from sharpbeam.errors import InputError
from sharpbeam.jobs import chunks
from sharpbeam.text.lines import check_readable

BAD_UTF8 = b"Bade ki.\nLo\xff\xfemu.\nBu.\n"


def test_invalid_utf8_on_stdin_names_the_line(run: Run, tiny_model: Path) -> None:
    result = run("translate", tiny_model, stdin=BAD_UTF8)
    result.refused(1, "standard input, line 2: byte 3 (0xff) is not valid UTF-8", "--encoding latin-1")


def test_invalid_utf8_in_a_file_names_file_and_line(call: Run, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(BAD_UTF8)
    call("translate", tiny_model, tmp_path / "bad").refused(1, f"{tmp_path / 'bad'}, line 2: byte 3")


def test_invalid_utf8_can_be_replaced(run: Run, call: Run, tiny_model: Path, tmp_path: Path) -> None:
    replaced = run("translate", tiny_model, "--errors", "replace", stdin=BAD_UTF8)
    assert (replaced.status, replaced.err) == (0, "")
    (tmp_path / "good").write_bytes(BAD_UTF8.decode("utf-8", "replace").encode())
    assert replaced.out == call("translate", tiny_model, tmp_path / "good").out


def test_lines_before_the_bad_one_are_translated_in_full_chunks(
    call: Run, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chunks, "CHUNK", 1)
    (tmp_path / "bad").write_bytes(BAD_UTF8)
    result = call("translate", tiny_model, tmp_path / "bad")
    assert (result.status, len(result.lines)) == (1, 1)
    assert "line 2" in result.err


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("[enforce fail] you can't allocate memory: 9 bytes")])
def test_too_little_memory_is_one_line(call: Run, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """NumPy and PyTorch each raise their own error."""

    def full(arguments: list[str]) -> None:
        raise error

    monkeypatch.setattr("sharpbeam.cli.app.run", full)
    call("info").refused(1, "out of memory; try smaller", "recipe")


def test_missing_input_is_named_before_the_model_is_looked_for(call: Run, tmp_path: Path) -> None:
    call("translate", "no-model", tmp_path / "gone").refused(1, f"cannot read {tmp_path / 'gone'}: No such file")
    call("translate", "no-model", tmp_path).refused(1, f"cannot read {tmp_path}: Is a directory")


def test_broken_gzip_is_named(call: Run, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"Bade ki.\n" * 9000)[:-20])
    result = call("translate", tiny_model, tmp_path / "cut.gz", "--max-length", 2, "--beam-size", 1)
    assert result.status == 1
    assert result.err.startswith(f"sharpbeam: cannot read {tmp_path / 'cut.gz'} after line ")


def test_unknown_model_names_what_there_is(call: Run, text: Path) -> None:
    call("translate", "de-xx", text).refused(1, "there is no model 'de-xx'", "Bundled are")


def test_empty_folder_is_no_model(call: Run, text: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    call("translate", tmp_path / "empty", text).refused(1, "config.json", "another program, convert it first")


def test_a_model_of_another_program_is_to_be_converted(call: Run, text: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "marian"}')
    call("translate", tmp_path, text).refused(1, "format_version is None", "another program, convert it first")
    call("translate", "owner/model", text).refused(1, "there is no model 'owner/model'", "hf:owner/model")
    file = tmp_path / "model.npz"
    file.write_bytes(b"PK")
    call("translate", file, text).refused(1, f"the model {file} is a file", "another program, convert it first")


@pytest.mark.parametrize("verb", ["info", "translate"])
def test_a_vocabulary_of_another_model_is_named(call: Run, tiny_model: Path, tmp_path: Path, verb: str) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | {"eos_id": 7}))
    call(verb, folder).refused(1, f"{folder}: eos_id is 7 in config.json, but 2 in the source vocabulary")


def test_results_are_utf8_in_any_locale(run: Run, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    assert "Grün".encode() in run("translate", tiny_model, "--format", "jsonl", stdin="Grün\n".encode()).out


def test_an_empty_name_is_no_model(call: Run, text: Path) -> None:
    call("translate", "", text).refused(1, "the name of the model is empty")


@pytest.mark.parametrize("name", ["none/out", "text/out"])
def test_output_in_no_folder_is_said_before_the_model_is_looked_for(call: Run, text: Path, name: str) -> None:
    output = text.parent / name
    result = call("translate", "no-model", text, "--output", output)
    result.refused(1, f"cannot write {output}: there is no folder {output.parent}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_output_in_a_locked_folder(call: Run, text: Path) -> None:
    (text.parent / "locked").mkdir(mode=0o500)
    output = text.parent / "locked" / "out"
    call("translate", "no-model", text, "--output", output).refused(1, f"cannot write {output}.part: Permission denied")


def test_output_to_what_is_no_file_is_refused(call: Run, text: Path) -> None:
    for output in (text.parent, Path(os.devnull)):
        call("translate", "no-model", text, "--output", output).refused(1, "is not a regular file")
    assert Path(os.devnull).is_char_device()


def test_a_failure_before_the_first_result_leaves_nothing(call: Run, text: Path) -> None:
    call("translate", "no-model", text, "--output", text.parent / "out").refused(1, "there is no model")
    assert [path.name for path in text.parent.iterdir()] == ["text"]


def test_a_failure_leaves_an_old_result_as_it_was(call: Run, tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(BAD_UTF8)
    (tmp_path / "out").write_text("old\n")
    call("translate", tiny_model, tmp_path / "bad", "--output", tmp_path / "out").refused(1, "line 2")
    assert (tmp_path / "out").read_text() == "old\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("verb", ["translate", "info"])
def test_standard_output_on_a_full_disk(run: Run, tiny_model: Path, text: Path, verb: str) -> None:
    arguments = [verb, tiny_model] + [text] * (verb == "translate")
    with Path("/dev/full").open("wb") as full:
        run(*arguments, stdout=full).refused(1, "cannot write the result: No space left on device")


def test_output_on_a_full_disk_keeps_what_is_done(
    run: Run, call: Run, tiny_model: Path, tmp_path: Path, sentences: list[str]
) -> None:
    """A limit on the size of files stands for the full disk: it strikes in the middle of a chunk."""
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_text("".join(line + "\n" for line in sentences[:3] * 500))
    job_ = ("translate", tiny_model, source, "--output", output, "--beam-size", 1, "--max-length", 20)
    assert call(*job_).status == 0
    whole = output.read_bytes()
    output.unlink()
    result = run(*job_, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2,) * 2))
    assert result.status == 1
    messages = result.err.splitlines()
    assert len(messages) == 2
    kept = re.fullmatch(
        r"sharpbeam: (\d+) lines are kept in .*; run the same job with --resume .* to continue.", messages[0]
    )
    assert kept and 0 < int(kept[1]) < 750
    assert messages[1] == f"sharpbeam: cannot write {output}.part: File too large."
    assert not output.exists()
    assert call(*job_, "--resume").status == 0
    assert output.read_bytes() == whole


def test_a_closed_pipe_ends_quietly(tiny_model: Path, sentences: list[str]) -> None:
    """As in `sharpbeam translate ... | head -1`."""
    process = start("translate", tiny_model, "--beam-size", 1, "--max-length", 9)
    assert process.stdin and process.stdout and process.stderr
    process.stdout.close()
    try:
        process.stdin.write("\n".join(sentences * 3).encode())
        process.stdin.close()
    except BrokenPipeError:
        pass
    assert process.wait(TIMEOUT) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(
    call: Run, tiny_model: Path, tmp_path: Path, sentences: list[str], threads: int
) -> None:
    source, output = tmp_path / "in", tmp_path / "out"
    source.write_text("".join(line + "\n" for line in sentences))
    job_ = ("translate", tiny_model, source, "--output", output, "--threads", threads)
    process = start(*job_, chunk=2, most=len(sentences) // 4)
    journal = tmp_path / "out.part.json"
    deadline = time.monotonic() + TIMEOUT
    while not (journal.exists() and '"lines": 0' not in journal.read_text()):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, messages
    first, second = messages.decode().splitlines()
    assert f"lines are kept in {output}.part; run the same job with --resume (resume=True) to continue." in first
    assert second == "sharpbeam: interrupted."
    assert not output.exists()
    assert call(*job_, "--resume").status == 0
    resumed = output.read_bytes()
    assert call(*job_).status == 0
    assert output.read_bytes() == resumed
    assert resumed.count(b"\n") == len(sentences)


def test_ctrl_c_without_output_is_quiet(tiny_model: Path) -> None:
    process = start("translate", tiny_model, chunk=1)
    assert process.stdin and process.stdout
    process.stdin.write(b"Bade ki.\n")
    process.stdin.flush()
    assert process.stdout.readline().endswith(b"\n")  # now it waits for the next line
    process.send_signal(signal.SIGINT)
    _, messages = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, messages) == (130, b"sharpbeam: interrupted.\n")


def test_a_named_pipe_is_read_once_also_below_a_progress_bar(run: Run, call: Run, tiny_model: Path, text: Path) -> None:
    pipe = text.with_name("pipe")
    os.mkfifo(pipe)
    expected = call("translate", tiny_model, text).out
    writer = threading.Thread(target=lambda: pipe.write_bytes(text.read_bytes()))
    writer.start()
    terminal, its_end = pty.openpty()
    with os.fdopen(terminal, "rb"), os.fdopen(its_end, "wb") as stderr:
        result = run("translate", tiny_model, pipe, stderr=stderr)
    writer.join(TIMEOUT)
    assert (result.status, result.out) == (0, expected)


def test_a_locked_pipe_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read everything
    with pytest.raises(InputError, match=f"cannot read {tmp_path / 'pipe'}: Permission denied"):
        check_readable([tmp_path / "pipe"])


@pytest.mark.parametrize("name", ["out", "link", "out.part", "out.part.json"])
def test_an_input_is_never_overwritten(call: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "link").symlink_to("out")
    (tmp_path / name).write_text("Bade ki.\n")
    result = call("translate", "no-model", tmp_path / name, "--output", tmp_path / "out", "--restart", "--lines")
    result.refused(2, "would overwrite the input")
    assert (tmp_path / name).read_text() == "Bade ki.\n"


def test_standard_input_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("Bade ki.\n")
    with (tmp_path / "in").open("rb") as stdin:
        completion = subprocess.run(
            [*COMMAND, "translate", "no-model", "--output", tmp_path / "in"],
            stdin=stdin,
            capture_output=True,
            env=environment(),
            timeout=TIMEOUT,
            check=False,
        )
    assert (completion.returncode, b"would overwrite the input" in completion.stderr) == (2, True)


@pytest.mark.parametrize(
    ("stream", "status", "messages"),
    [
        ("<&-", 1, "sharpbeam: cannot read standard input after line 0: Bad file descriptor.\n"),
        (">&-", 1, "sharpbeam: cannot write the result: Bad file descriptor.\n"),
        ("2>&-", 0, ""),
    ],
)
def test_closed_standard_streams(tiny_model: Path, stream: str, status: int, messages: str) -> None:
    program = f'echo "Bade ki." | {shlex.join(COMMAND)} translate {shlex.quote(str(tiny_model))} {stream}'
    completion = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, env=environment(), timeout=TIMEOUT, check=False
    )
    assert (completion.returncode, completion.stderr) == (status, messages)
    assert completion.stdout.count("\n") == (status == 0)


def test_an_empty_output_is_refused(call: Run, text: Path) -> None:
    call("translate", "no-model", text, "--output", "").refused(1, "is not a regular file but a folder")


def test_an_unknown_command_is_said_in_clean_sentences(call: Run) -> None:
    result = call("translat")
    result.refused(2, "See 'sharpbeam --help'.")
    assert "?." not in result.err


@pytest.mark.parametrize("value", [-1, 2**28 + 1, 99999999999999999999])
def test_numbers_of_words_that_the_core_cannot_count_are_refused(call: Run, tiny_model: Path, value: int) -> None:
    call("translate", tiny_model, "--precomputed-embeddings", value).refused(
        2, f"precomputed_embeddings is {value}; it must be between"
    )
