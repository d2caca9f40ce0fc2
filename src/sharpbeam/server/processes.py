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
from sharpbeam.server.folder import Share, temporary_folder

MOST = 8  # processes by default
LARGEST = 128 * 2**20  # bytes of models of which by default each process has a copy
AGAIN = 1.0  # seconds between two starts of a process that dies at once
LOOK = 1.0  # seconds between two looks at the time
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
            own = replace(options, max_connections=-(-options.max_connections // count))
            threads = replace(machine, threads=max(1, machine.workers // count))
            work = ProcessWork(list(models), own, threads, defaults, listener)
            url = url_of(listener)
            Supervisor(work, folder, count).run(lambda: ready(url))


def processes_for(options: ServerOptions, machine: MachineOptions, size: int) -> int:
    """How many processes to have for models of `size` bytes together; raises OptionError.

    By default one for each thread, where models are small: then most of the time is Python's, and a copy of them for
    each process takes little. Large models gain more from threads that share them, and from larger batches.
    """
    alone = machine.device != "cpu" or not POSIX
    require(options.processes < 2 or not alone, "processes", options.processes, "1 on a GPU, and on Windows")
    if options.processes:
        return options.processes
    if alone or size > LARGEST:
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

    def run(self, share: Share, report: Connection, delay: float) -> None:
        """The body of a process, which begins after `delay` seconds; reports "" when it serves, or why it cannot."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the first one sends SIGTERM
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        from sharpbeam.server.app import create_app
        from sharpbeam.server.run import run
        from sharpbeam.server.worker import end_with_parent

        end_with_parent()
        time.sleep(delay)
        parent = multiprocessing.parent_process()
        assert parent is not None
        try:
            app = create_app(self.models, self.options, self.machine, share, **self.defaults)
            run(app, self.options, self.listener, lambda url: report.send(""), parent.sentinel)
        except SharpbeamError as error:
            report.send(str(error))
            sys.exit(1)


@dataclass
class Child:
    """A running process."""

    share: Share
    process: BaseProcess
    report: Connection
    since: float
    ready: bool = False


class Supervisor:
    """Runs the processes of a server: another one for each that dies, and one end for all of them."""

    def __init__(self, work: ProcessWork, folder: Path, count: int) -> None:
        self._context: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
        pending = self._context.RawArray("q", count)
        self._work, self._shares = work, [Share(number, folder, pending) for number in range(count)]
        self._children: list[Child] = []
        self._serves = False  # all of them have been ready
        self._signal = 0  # the one that ends everything
        self._end = 0.0  # when what still runs is killed
        self._fault, self._status = "", 0

    def run(self, ready: Callable[[], None]) -> None:
        """Run them until a signal; calls `ready` when all of them serve. Raises SharpbeamError if they cannot."""
        before = {number: signal.signal(number, self._stop) for number in SIGNALS}
        try:
            for share in self._shares:
                self._start(share)
            while self._children:
                self._wait()
                for child in [each for each in self._children if not each.process.is_alive()]:
                    self._children.remove(child)
                    self._replace(child)
                if not self._serves and not self._signal and all(child.ready for child in self._children):
                    self._serves = True
                    ready()
        finally:
            for child in self._children:
                child.process.kill()
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._fault:
            raise SharpbeamError(self._fault)
        if self._status:
            sys.exit(self._status)
        if self._signal == signal.SIGINT:
            raise KeyboardInterrupt

    def _stop(self, number: int, frame: object) -> None:
        """Let requests in flight finish, and end; a second signal ends at once."""
        self._work.listener.close()  # or what connects now would wait for an answer
        if self._signal:
            self._status = 128 + number
        self._signal = self._signal or number
        self._end = self._end or time.monotonic() + self._work.options.drain + LEAVE
        for child in self._children:
            with suppress(ProcessLookupError, AttributeError):
                (child.process.kill if self._status else child.process.terminate)()

    def _start(self, share: Share, delay: float = 0.0) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # until the child has no handlers of ours
        try:
            if self._signal:
                return
            receiver, sender = self._context.Pipe(duplex=False)
            process = self._context.Process(target=self._work.run, args=(share, sender, delay), daemon=True)
            process.start()
            sender.close()
            self._children.append(Child(share, process, receiver, time.monotonic() + delay))
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _wait(self) -> None:
        """Wait until a process ends or reports, or for a while; kill all when the end must come."""
        reports = {child.report: child for child in self._children if not child.ready}
        for event in wait([*reports, *(child.process.sentinel for child in self._children)], LOOK):
            if event in reports:
                with suppress(EOFError):
                    message = reports[event].report.recv()
                    reports[event].ready, self._fault = not message, message or self._fault
        if self._end and time.monotonic() >= self._end:
            self._status = self._status or 1
            for child in self._children:
                child.process.kill()

    def _replace(self, child: Child) -> None:
        """Start another process for one that ended; all end with one that cannot even start."""
        from prometheus_client.multiprocess import mark_process_dead

        child.report.close()
        mark_process_dead(child.process.pid, str(child.share.folder))  # type: ignore[no-untyped-call]
        code = child.process.exitcode
        if self._signal:
            self._status = self._status or (1 if code == 1 else 0)  # stuck, with a trace of its own
        elif not self._serves:
            self._fault = self._fault or f"a process of the server ended at its start (exit code {code})."
            self._stop(signal.SIGTERM, None)
        else:
            line = {"event": "process", "number": child.share.number, "exit": code, "reason": self._fault}
            print(json.dumps(line), file=sys.stderr, flush=True)
            self._fault = ""
            self._start(child.share, max(0.0, child.since + AGAIN - time.monotonic()))
