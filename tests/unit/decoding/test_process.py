"""Threads that decode when Python ends, and in a fork: no abort, no hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BEGIN = """
import os, signal, sys, threading, time
from sharpbeam import Translator
translator = Translator(sys.argv[1], threads=2, beam_size=4)
texts = [" ".join(["a", "b", "c", "d"] * 10)] * 3000  # enough that the last one waits whenever a process forks
"""
ENDS = {
    "an iterator that was not closed": "results = translator.translate_iter(texts); next(results)",
    "a session that was not closed": """
session = translator.session()
handles = session.submit_all(texts)
session.start()
handles[0].result()""",
    "threads that translate": """
translator = Translator(sys.argv[1], threads=1, beam_size=4)
for _ in range(3):
    threading.Thread(target=lambda: [translator.translate(texts) for _ in range(99)], daemon=True).start()
time.sleep(0.2)""",
    "a thread that collects garbage as a step makes its results": """
import gc, inspect
from sharpbeam.search.native import NativeSearch
lines, first = inspect.getsourcelines(NativeSearch.step)
ending, calls = threading.Event(), []
def collect(phase, info):
    frame = sys._getframe().f_back
    if frame and frame.f_code is NativeSearch.step.__code__ and "_core.step" in lines[frame.f_lineno - first]:
        calls.append(frame)
        if calls[-9:].count(frame) > 8:  # not its arguments any more
            ending.set()
            time.sleep(0.002)  # without the GIL, which Python's end takes
translator = Translator(sys.argv[1], threads=1, beam_size=4)
options = {"return_scores": True, "num_hypotheses": 4}
threading.Thread(target=lambda: [translator.translate(texts, **options) for _ in range(99)], daemon=True).start()
gc.callbacks.append(collect)
gc.set_threshold(1)
ending.wait(30)""",
}


def run(program: str, model: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BEGIN + program, str(model)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("busy", ENDS)
def test_python_ends_while_threads_decode(tiny_model: Path, busy: str) -> None:
    if "garbage" in busy and sys.version_info >= (3, 12):
        pytest.skip("this Python collects garbage between calls only")
    process = run(ENDS[busy] + "\nprint('end')", tiny_model)
    assert (process.returncode, process.stdout, process.stderr) == (0, "end\n", "")


FORKED = """
child = os.fork()
if child == 0:
    signal.alarm(10)
    try:
        ACT
        print("no error", flush=True)
    except Exception as error:
        print(type(error).__name__, str(error)[:22], flush=True)
    os._exit(0)
os.waitpid(child, 0)
os._exit(0)
"""


@pytest.mark.parametrize("act", ["next(results)", "list(results)", "results.close()"])
def test_a_fork_cannot_continue_an_iterator(tiny_model: Path, act: str) -> None:
    process = run(ENDS["an iterator that was not closed"] + FORKED.replace("ACT", act), tiny_model)
    assert process.stdout == ("no error\n" if "close" in act else "SharpbeamError the process was forked\n"), (
        process.stderr
    )


@pytest.mark.parametrize(
    "act", ["session.submit('a')", "handles[-1].result()", "list(session.run())", "session.close()"]
)
def test_a_fork_cannot_continue_a_session(tiny_model: Path, act: str) -> None:
    process = run(ENDS["a session that was not closed"] + FORKED.replace("ACT", act), tiny_model)
    assert process.stdout == ("no error\n" if "close" in act else "SharpbeamError the process was forked\n"), (
        process.stderr
    )


def test_a_fork_may_begin_anew(tiny_model: Path) -> None:
    act = "assert translator.translate(texts[:3])[0].text is not None"
    process = run(ENDS["an iterator that was not closed"] + FORKED.replace("ACT", act), tiny_model)
    assert process.stdout == "no error\n", process.stderr
