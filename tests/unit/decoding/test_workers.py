"""Workers stop together: at the end, at an error, when the caller has enough, and at Ctrl-C."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sharpbeam import MachineOptions, Translator
from sharpbeam.decoding.workers import run_workers
from sharpbeam.options import machine as cores
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.search.native import NativeSearch
from sharpbeam.storage.model_folder import read_config, save_model
from sharpbeam.types import Request


def full_queue(batches: int) -> RequestQueue:
    return RequestQueue([Request(i, np.zeros(1, np.int32)) for i in range(batches)], 1)


def ours() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name.startswith("sharpbeam-")]


def drain(queue: RequestQueue) -> Iterator[int]:
    while batch := queue.take_batch():
        yield batch[0].index


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_everything_is_done_once(threads: int) -> None:
    queue = full_queue(50)
    assert sorted(run_workers(lambda: drain(queue), queue.close, threads)) == list(range(50))
    assert ours() == []


@pytest.mark.parametrize("threads", [1, 3])
def test_an_error_reaches_the_caller_and_stops_the_others(threads: int) -> None:
    queue = full_queue(1000)

    def work() -> Iterator[int]:
        for index in drain(queue):
            if index == 7:
                raise ValueError("broken")
            yield index

    with pytest.raises(ValueError, match="broken"):
        list(run_workers(work, queue.close, threads))
    assert ours() == [] and queue.closed and not len(queue)


@pytest.mark.parametrize("threads", [1, 3])
def test_closing_stops_endless_work(threads: int) -> None:
    queue = full_queue(0)

    def work() -> Iterator[int]:
        while not queue.closed:
            yield 1

    results = run_workers(work, queue.close, threads)
    assert next(results) == 1
    results.close()
    assert ours() == []


def test_an_interrupt_stops_the_workers() -> None:
    queue = full_queue(0)

    def work() -> Iterator[int]:
        while not queue.closed:
            yield 1

    results = run_workers(work, queue.close, 2)
    next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert ours() == []


def test_workers_are_as_many_as_cores_that_may_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(cores, "QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(6)))
    assert MachineOptions().workers == 6 and MachineOptions(device="cuda").workers == 1
    assert MachineOptions(threads=9).workers == 9
    for quota, expected in (("max 100000", 6), ("250000 100000", 3), ("1000 100000", 1), ("odd", 6)):
        (tmp_path / "cpu.max").write_text(quota)
        assert cores.usable_cores() == expected
    for value, expected in (("2", 2), ("4,2", 4), ("0", 1), ("many", 6), ("64", 6)):
        monkeypatch.setenv("OMP_NUM_THREADS", value)
        assert cores.usable_cores() == expected


MEMORY = """
import sys
from sharpbeam import MachineOptions, Translator
from sharpbeam.jobs.memory import peak_memory

texts = [f"{a} {b} ba." for a in ("Na", "Bi", "Mu", "Do", "Ke") for b in ("Li", "Lu", "No", "Ni")]
translator = Translator(sys.argv[1], machine=MachineOptions(threads=4))
translator.translate(texts[:1], max_length=4)
alone = peak_memory()
translator.translate(texts, max_length=4, batch_tokens=1)
shared = peak_memory()
others = [Translator(sys.argv[1]) for _ in range(3)]
print(shared - alone, peak_memory() - shared)
"""


def test_workers_share_one_copy_of_the_weights(tiny_model: Path, tmp_path: Path) -> None:
    config = replace(read_config(tiny_model), encoder_dim=400, decoder_dim=700, attention_dim=300)
    draw = np.random.default_rng(1)
    tensors = {n: draw.normal(0, 0.1, s).astype(np.float32) for n, s in config.tensor_shapes().items()}
    vocabulary = {"source.spm": (tiny_model / "source.spm").read_bytes()}
    save_model(tmp_path / "wide", config, tensors, vocabulary, "# wide\n")
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "wide")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    message = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    by_workers, by_copies = map(int, message.split())
    weights = sum(tensor.nbytes for tensor in tensors.values())
    assert by_copies > 2 * weights  # of three more; loading leaves some free memory
    assert by_workers < 0.3 * weights


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_an_iterator_that_was_open_at_a_fork_is_refused_in_the_child() -> None:
    """The workers are not there, so the child would wait for ever."""
    code = (
        "import os, sys\n"
        "from sharpbeam.decoding.workers import run_workers\n"
        "found = run_workers(lambda: iter(range(5)), lambda: None, 2)\n"
        "next(found)\n"
        "if os.fork() == 0:\n"
        "    try:\n"
        "        list(found)\n"
        "    except Exception as error:\n"
        "        print(error, flush=True)\n"
        "    os._exit(0)\n"
        "os.wait()\n"
        "print(len(list(found)))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    error, count = result.stdout.splitlines()
    assert error.startswith("the process was forked while threads of this session or iterator were decoding")
    assert count == "9"


def test_workers_take_no_whole_search_which_hears_of_nothing(tiny_model, sentences, monkeypatch) -> None:
    """In the main thread a signal ends it; other threads would search to the end after Ctrl-C."""
    texts = sentences[:4]
    expected = Translator(tiny_model, threads=1, batch_tokens=1).translate(texts, raw=True)
    whole: list[threading.Thread] = []
    plain = NativeSearch.decode

    def noted(*given):
        whole.append(threading.current_thread())
        return plain(*given)

    monkeypatch.setattr(NativeSearch, "decode", noted)
    for threads in (1, 2):
        assert Translator(tiny_model, threads=threads, batch_tokens=1).translate(texts, raw=True) == expected
    assert whole and set(whole) == {threading.main_thread()}
