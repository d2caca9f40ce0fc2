"""A program that talks to the command through pipes gets each answer at once; Ctrl-C twice ends it in order."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from support.command import TIMEOUT, Run, environment, start, without_flags

from sharpbeam.jobs import chunks


def answer(process: subprocess.Popen[bytes]) -> bytes:
    """The next line of its output, which must come."""
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], TIMEOUT)
    assert ready, "no answer"
    return process.stdout.readline()


@pytest.mark.parametrize("threads", [1, 2])
def test_each_line_is_answered_before_the_next_one_is_sent(
    call: Run, tiny_model: Path, tmp_path: Path, sentences: list[str], threads: int
) -> None:
    process = start("translate", tiny_model, "--threads", threads)
    assert process.stdin
    results = []
    for sentence in sentences[:4]:
        process.stdin.write(f"{sentence}\n".encode())
        process.stdin.flush()
        results.append(answer(process))
    _, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, without_flags(err.decode())) == (0, "")
    (tmp_path / "in").write_text("\n".join(sentences[:4]))
    assert b"".join(results) == call("translate", tiny_model, tmp_path / "in").out


def test_score_answers_line_by_line(tiny_model: Path) -> None:
    process = start("score", tiny_model)
    assert process.stdin
    for pair in (b"ba\tba\n", b"bade ki\tba\n"):
        process.stdin.write(pair)
        process.stdin.flush()
        assert float(answer(process)) < 0
    process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0


def test_lines_come_while_others_of_their_chunk_are_translated() -> None:
    """In order, each as soon as it and those before it are done."""
    log: list[str] = []

    def work(chunk: list[str]) -> Generator[tuple[int, str], None, None]:
        for position in (1, 0, 2):
            log.append(f"done {chunk[position]}")
            yield position, chunk[position].upper()

    for _, answer in chunks.chunked_answers(iter("abc"), work, commit=lambda: log.append("commit")):
        log.append(f"put {answer}")
    assert log == ["done b", "done a", "put A", "put B", "done c", "put C", "commit"]


def test_a_chunk_ends_where_the_next_item_is_not_there() -> None:
    blocks: list[list[int]] = []

    def work(chunk: list[int]) -> Generator[tuple[int, int], None, None]:
        blocks.append(chunk)
        yield from enumerate(chunk)

    def ready() -> bool:
        return next(there)

    there = iter([True, False, True, True, False, False, True])
    assert len(list(chunks.chunked_answers(iter(range(7)), work, ready=ready))) == 7
    assert blocks == [[0, 1], [2, 3, 4], [5], [6]]
    blocks.clear()
    assert len(list(chunks.chunked_answers(iter(range(7)), work, ready=lambda: False, fixed=3))) == 7
    assert blocks == [[0, 1, 2], [3, 4, 5], [6]]


@pytest.mark.parametrize("pause", [0.0, 0.05])
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_twice_is_one_in_order(
    tiny_model: Path, tmp_path: Path, sentences: list[str], threads: int, pause: float
) -> None:
    """As `timeout -s INT` and hasty people send it; with running threads Python would abort."""
    (tmp_path / "in").write_text("".join(line + "\n" for line in sentences * 20))
    process = start("translate", tiny_model, tmp_path / "in", "--threads", threads)
    answer(process)
    process.send_signal(signal.SIGINT)
    time.sleep(pause)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, message) == (130, b"sharpbeam: interrupted.\n")


def test_ctrl_c_counts_where_python_drops_errors(tiny_model: Path) -> None:
    """As a thread's last reference goes, its entry of a WeakSet is removed, in a function that drops errors."""
    program = (
        "import signal, sys, time, types, weakref; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from sharpbeam.cli import app, main\n"
        "def work(arguments):\n"
        "    frame = types.SimpleNamespace(f_globals=weakref.WeakSet()._remove.__globals__)\n"
        "    signal.getsignal(signal.SIGINT)(signal.SIGINT, frame)\n"
        "    print('dropped', flush=True); time.sleep(60)\n"
        "app.run = work\n"
        "sys.exit(main.main([]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, timeout=TIMEOUT, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (130, b"dropped\n", b"sharpbeam: interrupted.\n")


def test_a_late_second_ctrl_c_ends_at_once(tiny_model: Path) -> None:
    """Where the work does not end by itself after the first one."""
    program = (
        "import signal, sys, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from sharpbeam.cli import app, main\n"
        "main.PATIENCE = 0.2\n"
        "def stuck(arguments):\n"
        "    try: print('begun', flush=True); time.sleep(60)\n"
        "    finally: time.sleep(60)\n"
        "app.run = stuck\n"
        "sys.exit(main.main([]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert answer(process) == b"begun\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    time.sleep(2.0)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, message) == (130, b"sharpbeam: interrupted twice; stopped at once.\n")
    assert time.monotonic() - began < 30


def test_control_characters_of_names_do_not_reach_the_terminal(call: Run, tiny_model: Path) -> None:
    result = call("translate", "no\x1b[31mmodel")
    result.refused(1, "no\\x1b[31mmodel")
    assert "\x1b" not in result.err


def test_python_m_runs_the_command() -> None:
    command = [sys.executable, "-m", "sharpbeam", "--version"]
    completion = subprocess.run(command, capture_output=True, env=environment(), timeout=TIMEOUT, check=False)
    assert (completion.returncode, completion.stdout[:10], completion.stderr) == (0, b"sharpbeam ", b"")
