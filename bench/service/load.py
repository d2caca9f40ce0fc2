"""The server under load from this machine: against one request at a time, LibreTranslate's design, and overloaded.

Each server is a process of its own on the loopback interface; the clients are in this one. Answers are compared with
the library's before anything is timed; guards are off, since the others have none. Requests per processor second of the
server are recorded next to those per second: they mean the same on a machine that does nothing else, and a busy one
disturbs them less. The clients need a part of this machine too, which is recorded apart. The floor is what the library
alone wins from decoding 64 sentences together instead of one after another: no server can win more on a thread.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.flags import Data, Model, Rounds
from bench.harness import record
from bench.harness.clients import Load, run_clients
from bench.harness.testset import DATA, TEST, test_file
from sharpbeam import Translator
from sharpbeam.text.lines import column_pairs
from sharpbeam.text.sentences import split_sentences

CLIENTS = 64
SENTENCES = 400
TEXTS = {"de-en": (TEST, 1), "en-pt": ("tatoeba/eng-por.test.tsv.gz", 0)}  # by direction: a file, and its column
TICKS = os.sysconf("SC_CLK_TCK")


class DisagreementError(Exception):
    """A server does not say what the library says, so its time means nothing."""


@dataclass(frozen=True)
class Setting:
    """A model, and how it is served."""

    model: str
    direction: str  # a key of TEXTS
    data: str
    beam_size: int
    threads: int
    exact: bool

    @property
    def languages(self) -> tuple[str, str]:
        """Source and target."""
        source, target = self.direction.split("-")
        return source, target

    @property
    def options(self) -> dict[str, Any]:
        """Those of a line."""
        return {
            "model": Path(self.model).name,
            "direction": self.direction,
            "beam_size": self.beam_size,
            "exact": self.exact,
        }

    def answers(self) -> dict[str, str]:
        """The library's translations of texts of one sentence: the other servers do not split texts."""
        name, column = TEXTS[self.direction]
        every = [source for source, _ in column_pairs(test_file(self.data, name), column, 1 - column)]
        chosen = [every[i * len(every) // SENTENCES] for i in range(SENTENCES)]
        texts = [text for text in dict.fromkeys(chosen) if len(split_sentences(text, self.languages[0])) == 1]
        translator = Translator(self.model, beam_size=self.beam_size)
        return {text: each.text for text, each in zip(texts, translator.translate(texts), strict=True)}

    def floor(self, texts: Sequence[str], rounds: int) -> dict[str, float]:
        """Sentences per processor second of the library on a thread: one after another, and CLIENTS at a time."""
        translator = Translator(self.model, threads=1, beam_size=self.beam_size)

        def alone() -> None:
            for text in texts:
                translator.translate([text])

        def together() -> None:
            with translator.session() as session:
                waiting = iter(texts)
                session.submit_all([next(waiting) for _ in range(CLIENTS)])
                while session.pending:
                    for _ in session.step():
                        if (text := next(waiting, None)) is not None:
                            session.submit(text)

        together()  # and warm
        best = {"alone": 0.0, "together": 0.0}
        for _ in range(rounds):
            for name, work in (("alone", alone), ("together", together)):
                began = time.process_time()
                work()
                best[name] = max(best[name], len(texts) / (time.process_time() - began))
        return {name: round(value, 1) for name, value in best.items()} | {"gain": best["together"] / best["alone"]}


class Server:
    """A server in a process of its own."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        """Wait until it says its address."""
        self.name = name
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(record.ROOT / "src"), str(record.ROOT)])}
        self._process = subprocess.Popen(
            [sys.executable, *command], stderr=subprocess.PIPE, text=True, env=environment, cwd=record.ROOT
        )
        assert self._process.stderr is not None
        while not (address := re.search(r"at (http://[\d.:]+)", line := self._process.stderr.readline())):
            assert line, f"{name} did not start"
        self.url = address[1]
        self._reader = ThreadPoolExecutor(1)
        self._reader.submit(lambda stream: [None for _ in stream], self._process.stderr)  # so that it never blocks

    @property
    def seconds(self) -> float:
        """Processor time so far."""
        stats = [Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split() for pid in self._processes]
        return sum(int(fields[11]) + int(fields[12]) for fields in stats) / TICKS

    @property
    def memory(self) -> float:
        """Resident MiB; a page that several processes share is counted once."""
        texts = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in self._processes]
        return sum(int(text.partition("\nPss:")[2].split()[0]) for text in texts) / 1024

    @property
    def _processes(self) -> list[int]:
        """The process that was started, and those that it started."""
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(60)
        self._reader.shutdown()


@contextmanager
def servers(setting: Setting, peer: bool) -> Iterator[list[Server]]:
    """Ours, one request at a time, and LibreTranslate's design."""
    simple = ["-m", "bench.engines.simple_server"]
    size = [str(setting.beam_size), str(setting.threads)]
    commands = {"sharpbeam": ours(setting), "one at a time": [*simple, "one", setting.model, *size]}
    if peer:
        commands["libretranslate"] = [*simple, "libretranslate", setting.model, *size]
    started = [Server(name, command) for name, command in commands.items()]
    try:
        yield started
    finally:
        for server in started:
            server.close()


def ours(setting: Setting, *options: str) -> list[str]:
    """The command of our server."""
    flags = ["--no-guards", "--port", "0", "--threads", str(setting.threads), "--beam-size", str(setting.beam_size)]
    return ["-m", "sharpbeam", "serve", f"{setting.direction}={setting.model}", *flags, *options]


def _round(
    server: Server, setting: Setting, texts: Sequence[str], clients: int, seconds: float, think: float = 0.0
) -> dict[str, float]:
    before, own = server.seconds, time.process_time()
    load = run_clients(server.url, texts, setting.languages, clients, seconds, think)
    if set(load.statuses) != {200} or load.different:
        raise DisagreementError(f"{server.name}: statuses {load.statuses}, {load.different} different answers")
    return {
        "per_second": load.throughput,
        "per_cpu_second": len(load.latencies) / max(server.seconds - before, 0.01),
        "clients_cpu_ms": 1e3 * (time.process_time() - own) / len(load.latencies),
        "p50_ms": 1e3 * load.latency(0.5),
        "p95_ms": 1e3 * load.latency(0.95),
    }


def throughput(setting: Setting, seconds: float, rounds: int, peer: bool) -> dict[str, Any]:
    """64 clients, and one, against each server in turns; then 64 that offer three times what one at a time can do."""
    expected = setting.answers()
    texts = list(expected)
    with servers(setting, peer) as started:
        for server in started:
            load = run_clients(server.url, texts[:100], setting.languages, 8, 2.0)  # and warm
            wrong = sum(expected[text] != answer for text, answer in load.answers.items())
            if server.name != "libretranslate" and wrong:
                raise DisagreementError(f"{server.name}: {wrong} answers are not the library's")
        runs: dict[str, list[dict[str, float]]] = {}
        for _ in range(rounds):
            for server in started:
                for clients in (CLIENTS, 1):
                    figures_of = _round(server, setting, texts, clients, seconds)
                    runs.setdefault(f"{server.name}, {clients}", []).append(figures_of)
            pace = 3 * runs["one at a time, 64"][-1]["per_second"]
            figures_of = _round(started[0], setting, texts, CLIENTS, seconds, CLIENTS / pace)
            runs.setdefault("sharpbeam, 64 at three times the pace", []).append(figures_of | {"offered": pace})
    figures = {
        name: {key: round(statistics.median(each[key] for each in figures_of), 2) for key in figures_of[0]}
        for name, figures_of in runs.items()
    }
    floor = setting.floor(texts, rounds)
    options = setting.options | {"clients": CLIENTS, "seconds": seconds, "rounds": rounds, "peer": peer}
    facts = {"figures": figures, "floor": floor | {"gain": round(floor["gain"], 2)}}
    return record.write("service", facts, threads=setting.threads, options=options | {"what": "throughput"})


def overload(setting: Setting, seconds: float) -> dict[str, Any]:
    """Four times as many clients as sentences that are accepted: answers, refusals and memory."""
    expected = setting.answers()
    texts = list(expected)
    server = Server("sharpbeam", ours(setting, "--queue-limit", "64"))
    loads: list[Load] = []
    memory: list[float] = []
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            loads.append(run_clients(server.url, texts, setting.languages, 4 * CLIENTS, min(10.0, seconds / 6)))
            memory.append(server.memory)
    finally:
        server.close()
    warm = memory[min(2, len(memory) - 1) :]
    statuses: dict[str, int] = {}
    for load in loads:
        for status, count in load.statuses.items():
            statuses[str(status)] = statuses.get(str(status), 0) + count
    different = sum(load.different for load in loads)
    different += sum(expected[text] != answer for load in loads for text, answer in load.answers.items())
    figures = {"statuses": statuses, "different": different, "memory_mib": [round(each, 1) for each in memory]}
    figures["growth"] = round(max(warm) / warm[0] - 1, 4)
    options = setting.options | {"clients": 4 * CLIENTS, "queue_limit": 64, "seconds": seconds, "what": "overload"}
    return record.write("service", figures, threads=setting.threads, options=options)


def main(
    data: Data = DATA,
    model: Model = "de-en",
    rounds: Rounds = 3,
    seconds: Annotated[float, typer.Option(help="of each server in each round")] = 10.0,
    threads: Annotated[int, typer.Option(help="of the model; 0 = all cores")] = 0,
    direction: Annotated[str, typer.Option(help="de-en or en-pt")] = "de-en",
    beam_size: int = 5,
    exact: Annotated[bool, typer.Option(help="float32 and the exact output layer, not what users get")] = False,
    peer: Annotated[
        bool, typer.Option(help="LibreTranslate's design too; needs a transformer and CTranslate2")
    ] = False,
    overloaded: Annotated[float, typer.Option(help="seconds of overload; 0 = none")] = 0.0,
) -> None:
    """Measure, print and record."""
    os.environ["SHARPBEAM_EXACT"] = str(int(exact))
    setting = Setting(model, direction, data, beam_size, threads or os.cpu_count() or 1, exact)
    if rounds:
        line = throughput(setting, seconds, rounds, peer)
        print("floor", line["floor"])
        for name, figures in line["figures"].items():
            print(f"{name:<40}", ", ".join(f"{key} {value}" for key, value in figures.items()))
    if overloaded:
        print(json.dumps(overload(setting, overloaded)))
