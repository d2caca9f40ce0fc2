"""The server under load from this machine: against one request at a time, LibreTranslate's design, and overloaded.

Each server is a process of its own on the loopback interface; the clients are in this one. Answers are compared with
the library's before anything is timed; guards are off, since the others have none. Requests per processor second of the
server are recorded next to those per second: they mean the same on a machine that does nothing else, and a busy one
disturbs them less.
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
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.flags import Data, Model, Rounds
from bench.harness import record
from bench.harness.clients import Load, run_clients
from bench.harness.testset import DATA, german_english
from sharpbeam import Translator
from sharpbeam.documents import split_sentences

BEAM = 5
CLIENTS = 64
LANGUAGES = ("de", "en")
TICKS = os.sysconf("SC_CLK_TCK")


class DisagreementError(Exception):
    """A server does not say what the library says, so its time means nothing."""


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
        while not (found := re.search(r"at (http://[\d.:]+)", line := self._process.stderr.readline())):
            assert line, f"{name} did not start"
        self.url = found[1]
        self._reader = ThreadPoolExecutor(1)
        self._reader.submit(lambda stream: [None for _ in stream], self._process.stderr)  # so that it never blocks

    @property
    def seconds(self) -> float:
        """Processor time so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    @property
    def memory(self) -> float:
        """Resident MiB."""
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) / 1024  # type: ignore[index]

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(60)
        self._reader.shutdown()


@contextmanager
def servers(model: str, threads: int, peer: bool) -> Iterator[list[Server]]:
    """Ours, one request at a time, and LibreTranslate's design."""
    simple = ["-m", "bench.engines.simple_server"]
    size = [str(BEAM), str(threads)]
    commands = {"sharpbeam": ours(model, threads), "one at a time": [*simple, "one", model, *size]}
    if peer:
        commands["libretranslate"] = [*simple, "libretranslate", model, *size]
    started = [Server(name, command) for name, command in commands.items()]
    try:
        yield started
    finally:
        for server in started:
            server.close()


def ours(model: str, threads: int, *options: str) -> list[str]:
    """The command of our server."""
    served = model if "/" not in model else f"{'-'.join(LANGUAGES)}={model}"
    flags = ["--no-guards", "--port", "0", "--threads", str(threads), "--beam-size", str(BEAM)]
    return ["-m", "sharpbeam", "serve", served, *flags, *options]


def _round(server: Server, texts: Sequence[str], clients: int, seconds: float, think: float = 0.0) -> dict[str, float]:
    before = server.seconds
    load = run_clients(server.url, texts, LANGUAGES, clients, seconds, think)
    if set(load.statuses) != {200} or load.different:
        raise DisagreementError(f"{server.name}: statuses {load.statuses}, {load.different} different answers")
    return {
        "per_second": load.throughput,
        "per_cpu_second": len(load.latencies) / max(server.seconds - before, 0.01),
        "p50_ms": 1e3 * load.latency(0.5),
        "p95_ms": 1e3 * load.latency(0.95),
    }


def answers(model: str, data: str) -> dict[str, str]:
    """The library's translations of texts of one sentence: the other servers do not split texts."""
    texts = [text for text in german_english(data, 400)[0] if len(split_sentences(text, "de")) == 1]
    translator = Translator(model, beam_size=BEAM)
    return {text: each.text for text, each in zip(texts, translator.translate(texts), strict=True)}


def throughput(model: str, data: str, seconds: float, rounds: int, threads: int, peer: bool) -> dict[str, Any]:
    """64 clients, and one, against each server in turns; then 64 that offer three times what one at a time can do."""
    wanted = answers(model, data)
    texts = list(wanted)
    with servers(model, threads, peer) as started:
        for server in started:
            load = run_clients(server.url, texts[:100], LANGUAGES, 8, 2.0)  # and warm
            wrong = sum(wanted[text] != said for text, said in load.answers.items())
            if server.name != "libretranslate" and wrong:
                raise DisagreementError(f"{server.name}: {wrong} answers are not the library's")
        taken: dict[str, list[dict[str, float]]] = {}
        for _ in range(rounds):
            for server in started:
                for clients in (CLIENTS, 1):
                    found = _round(server, texts, clients, seconds)
                    taken.setdefault(f"{server.name}, {clients}", []).append(found)
            pace = 3 * taken["one at a time, 64"][-1]["per_second"]
            found = _round(started[0], texts, CLIENTS, seconds, CLIENTS / pace)
            taken.setdefault("sharpbeam, 64 at three times the pace", []).append(found | {"offered": pace})
    figures = {
        name: {key: round(statistics.median(each[key] for each in found), 2) for key in found[0]}
        for name, found in taken.items()
    }
    options = {"model": model, "clients": CLIENTS, "beam_size": BEAM, "seconds": seconds, "rounds": rounds}
    return record.write(
        "service", {"figures": figures}, threads=threads, options=options | {"what": "throughput", "peer": peer}
    )


def overload(model: str, data: str, seconds: float, threads: int) -> dict[str, Any]:
    """Four times as many clients as sentences that are accepted: answers, refusals and memory."""
    wanted = answers(model, data)
    texts = list(wanted)
    server = Server("sharpbeam", ours(model, threads, "--queue-limit", "64"))
    loads: list[Load] = []
    memory: list[float] = []
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            loads.append(run_clients(server.url, texts, LANGUAGES, 4 * CLIENTS, min(10.0, seconds / 6)))
            memory.append(server.memory)
    finally:
        server.close()
    warm = memory[min(2, len(memory) - 1) :]
    statuses: dict[str, int] = {}
    for load in loads:
        for status, count in load.statuses.items():
            statuses[str(status)] = statuses.get(str(status), 0) + count
    different = sum(load.different for load in loads)
    different += sum(wanted[text] != said for load in loads for text, said in load.answers.items())
    figures = {"statuses": statuses, "different": different, "memory_mib": [round(each, 1) for each in memory]}
    figures["growth"] = round(max(warm) / warm[0] - 1, 4)
    options = {"model": model, "clients": 4 * CLIENTS, "queue_limit": 64, "seconds": seconds, "what": "overload"}
    return record.write("service", figures, threads=threads, options=options)


def main(
    data: Data = DATA,
    model: Model = "de-en",
    rounds: Rounds = 3,
    seconds: Annotated[float, typer.Option(help="of each server in each round")] = 10.0,
    threads: Annotated[int, typer.Option(help="of the model; 0 = all cores")] = 0,
    peer: Annotated[
        bool, typer.Option(help="LibreTranslate's design too; needs a transformer and CTranslate2")
    ] = False,
    overloaded: Annotated[float, typer.Option(help="seconds of overload; 0 = none")] = 0.0,
) -> None:
    """Measure, print and record."""
    threads = threads or os.cpu_count() or 1
    if rounds:
        line = throughput(model, data, seconds, rounds, threads, peer)
        for name, figures in line["figures"].items():
            print(f"{name:<40}", ", ".join(f"{key} {value}" for key, value in figures.items()))
    if overloaded:
        print(json.dumps(overload(model, data, overloaded, threads)))
