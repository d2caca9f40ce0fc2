"""Serving in several processes: how many, what each gets of the machine, and another one for one that dies.

One interpreter runs one thread of Python at a time, and half of the work for a short sentence is Python. So several
processes accept from one socket, each with its own models and its share of the threads. They are forked by a process
that has no threads and has loaded no model; it only waits for them.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from sharpbeam.errors import SharpbeamError
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.options.server import ServerOptions
from sharpbeam.server.catalog import Catalog
from sharpbeam.server.folder import temporary_folder
from sharpbeam.server.share import Share

MOST = 8  # processes by default
LARGEST = 128 * 2**20  # bytes of models of which by default each process has a copy
AGAIN = 1.0  # seconds between two starts of a process that dies at once
LEAVE = 1.8  # seconds after the drain in which a process must end
SIGNALS = (signal.SIGTERM, signal.SIGINT)
POSIX = hasattr(os, "fork")  # signals that can be blocked

Ready = Callable[[str], None]


def serve(
    models: Sequence[str], options: ServerOptions, machine: MachineOptions, defaults: DecodeKeywords, ready: Ready
) -> None:
    """Serve `models` until SIGTERM or SIGINT; calls `ready` with the URL as soon as requests are answered.

    Raises SharpbeamError for what cannot be served.
    """
    count = processes_for(options, machine, sum(entry.size for entry in Catalog(models).entries.values()))
    if count == 1:
        from sharpbeam.server.app import create_app
        from sharpbeam.server.run import listen, run

        app = create_app(models, options, machine, **defaults)
        run(app, options, listen(options.host, options.port), ready)
        return
    with temporary_folder() as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(folder)  # read when prometheus_client is imported
        os.environ["UV_TCP_SINGLE_ACCEPT"] = "1"  # uvloop: leave connections to the other processes
        import sharpbeam.server.app  # noqa: F401 (before the fork: its memory is shared)
        from sharpbeam.server.run import listen, url_of

        with listen(options.host, options.port) as listener:
            own = replace(
                options,
                max_model_memory=-(-options.max_model_memory // count),
                max_connections=-(-options.max_connections // count),
            )
            threads = replace(machine, threads=max(1, machine.workers // count))
            work = ProcessWork(list(models), own, threads, defaults, listener)
            url = url_of(listener)
            Processes(work, folder, count).run(lambda: ready(url))


def processes_for(options: ServerOptions, machine: MachineOptions, size: int) -> int:
    """How many processes to have for models of `size` bytes together; raises OptionError.

    By default one for each thread, where models are small: then most of the time is Python's, and a copy of them for
    each process takes little. Large models gain more from threads that share them, and from larger batches.
    """
    alone = machine.device != "cpu" or not POSIX
    require(options.processes < 2 or not alone, "processes", options.processes, "1 on a GPU, and on Windows")
    if options.processes:
        return options.processes
    if alone or options.max_models or options.max_model_memory or size > LARGEST:
        return 1
    return min(machine.workers, MOST)


@dataclass(frozen=True)
class ProcessWork:
    """The work of every process."""

    models: list[str]
    options: ServerOptions
    machine: MachineOptions
    defaults: DecodeKeywords
    listener: socket.socket

    def run(self, share: Share, told: Connection) -> None:
        """The body of a process; tells "" when it serves, or why it cannot."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one sends SIGTERM
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        from sharpbeam.server.app import create_app
        from sharpbeam.server.run import run
        from sharpbeam.server.worker import end_with_parent

        end_with_parent()
        parent = multiprocessing.parent_process()
        assert parent is not None
        try:
            app = create_app(self.models, self.options, self.machine, share, **self.defaults)
            run(app, self.options, self.listener, lambda url: told.send(""), parent.sentinel)
        except SharpbeamError as error:
            told.send(str(error))
            sys.exit(1)


@dataclass
class Process:
    """A running process."""

    share: Share
    process: BaseProcess
    told: Connection
    begun: float
    ready: bool = False


class Processes:
    """The processes of a server."""

    def __init__(self, work: ProcessWork, folder: Path, count: int) -> None:
        self._work, self._shares = work, [Share(folder, number, count) for number in range(count)]
        self._running: dict[int, Process] = {}  # by number
        self._due: dict[int, float] = {}  # when to start those that died
        self._signal = 0  # the one that ends everything
        self._end = 0.0  # when what still runs is killed
        self._fault = ""
        self._stuck = False  # a process did not end by itself
        self._context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")

    def run(self, ready: Callable[[], None]) -> None:
        """Run them until a signal; calls `ready` when all of them serve. Raises SharpbeamError if they cannot."""
        before = {number: signal.signal(number, self._stop) for number in SIGNALS}
        told = False
        try:
            self._due = dict.fromkeys(range(len(self._shares)), 0.0)
            while self._running or (self._due and not self._signal):
                self._start_due()
                self._wait()
                if not told and not self._due and all(each.ready for each in self._running.values()):
                    told = True
                    if not self._signal:
                        ready()
                self._take_dead(told)
        finally:
            for each in self._running.values():
                each.process.kill()
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._fault:
            raise SharpbeamError(self._fault)
        if self._stuck:
            sys.exit(1)
        if self._signal == signal.SIGINT:
            raise KeyboardInterrupt

    def _stop(self, number: int, frame: object) -> None:
        """Let requests in flight finish, and end; a second signal ends at once."""
        self._work.listener.close()  # or what connects now would wait for an answer
        again, self._signal = bool(self._signal), self._signal or number
        self._end = self._end or time.monotonic() + self._work.options.drain + LEAVE
        for each in list(self._running.values()):
            with suppress(ProcessLookupError, AttributeError):
                (each.process.kill if again else each.process.terminate)()

    def _start_due(self) -> None:
        for number in [number for number, due in self._due.items() if due <= time.monotonic()]:
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the child has no handlers of ours
            try:
                if self._signal:
                    return
                receiver, sender = self._context.Pipe(duplex=False)
                process = self._context.Process(target=self._work.run, args=(self._shares[number], sender), daemon=True)
                process.start()
                sender.close()
                self._running[number] = Process(self._shares[number], process, receiver, time.monotonic())
                del self._due[number]
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _wait(self) -> None:
        """Wait until a process ends or says that it serves, one is to be started, or the end must come."""
        dates = [*self._due.values(), self._end] if self._end else list(self._due.values())
        patience = max(0.0, min(dates) - time.monotonic()) if dates else None
        found = wait([each.process.sentinel for each in self._running.values()]
                     + [each.told for each in self._running.values() if not each.ready], patience)  # fmt: skip
        for each in self._running.values():
            if each.told in found:
                with suppress(EOFError):
                    said = each.told.recv()
                    each.ready, self._fault = not said, said or self._fault
        if self._end and time.monotonic() >= self._end:
            for each in self._running.values():
                each.process.kill()
                self._stuck = True

    def _take_dead(self, served: bool) -> None:
        """Have another process for each that ended; all end with one that cannot even start."""
        for number, each in list(self._running.items()):
            if each.process.is_alive():
                continue
            del self._running[number]
            each.told.close()
            code = each.process.exitcode
            if self._signal:
                self._stuck = self._stuck or code == 1  # with a trace of its own
                continue
            if not served:
                self._fault = self._fault or f"a process of the server ended at its start (exit code {code})."
                self._stop(signal.SIGTERM, None)
                continue
            _log({"event": "process", "number": number, "exit": code, "reason": self._fault})
            self._fault = ""
            self._due[number] = max(time.monotonic(), each.begun + AGAIN)


def _log(line: dict[str, Any]) -> None:
    print(json.dumps(line), file=sys.stderr, flush=True)
