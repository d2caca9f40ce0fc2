"""Running the server: listening, and an orderly end."""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from sharpbeam.errors import SharpbeamError
from sharpbeam.options.server import ServerOptions
from sharpbeam.server.connection import connection_type
from sharpbeam.server.refusals import places

LAST = 1.5  # seconds after the drain in which the process must end
BACKLOG = 2048
KEEP = 75  # seconds that a connection may be idle: longer than proxies keep theirs, which would else meet closed ones
LOGS = {"sharpbeam.server": logging.INFO, "python_multipart": logging.ERROR}  # which warns of bad requests, in text
LOGS |= dict.fromkeys(("sharpbeam", "uvicorn.error", "asyncio"), logging.WARNING)
SWITCH = 0.0005  # seconds after which threads hand over the interpreter: a step of decoding takes about as long


def run(app: Any, options: ServerOptions, listener: socket.socket, ready: Callable[[str], None]) -> None:
    """Serve `app` until SIGTERM or SIGINT; calls `ready` with the URL as soon as requests are answered.

    A second signal ends it at once. What is stuck LAST seconds after the drain ends with the process.
    """
    _allow_files(options.max_connections)
    _log_lines()
    sys.setswitchinterval(SWITCH)

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)  # from here on a signal is an orderly end
            if self.started:
                ready(url_of(listener))

        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            if self.should_exit:
                os._exit(128 + sig)
            faulthandler.dump_traceback_later(options.drain + LAST, exit=True, file=2)  # needs no interpreter
            if sig == signal.SIGTERM:
                self.should_exit = True  # uvicorn would raise it again at the end; to obey it is no failure
            else:
                super().handle_exit(sig, frame)

    server = Server(configuration(app, options))
    before = signal.signal(signal.SIGTERM, lambda sig, frame: os._exit(128 + sig))  # before it starts, and at the end
    try:
        server.run(sockets=[listener])
    except SystemExit as error:  # of uvicorn, whose status 3 no other verb has
        raise SharpbeamError("the server cannot start; the lines above say why.") from error
    finally:
        signal.signal(signal.SIGTERM, before)
        listener.close()


def configuration(app: Any, options: ServerOptions) -> uvicorn.Config:
    """Uvicorn's configuration: without its logs, which name paths and addresses in a form of their own."""
    return uvicorn.Config(
        app, http=connection_type(options), ws="none", lifespan="on", log_config=None, log_level="error",
        access_log=False, server_header=False, limit_concurrency=options.max_connections + 1, backlog=BACKLOG,
        timeout_graceful_shutdown=options.drain, timeout_keep_alive=KEEP,
    )  # fmt: skip


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; raises SharpbeamError."""
    try:
        kind, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(kind, socket.SOCK_STREAM)
        if sys.platform != "win32":  # which would let two servers have one port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise SharpbeamError(
            f"cannot listen on {host} port {port}: {reason}; choose another --port or --host."
        ) from error
    return listener


def url_of(listener: socket.socket) -> str:
    """Where the server is."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _allow_files(connections: int) -> None:
    """Raise the number of files that this process may open, as far as it is allowed to."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        files = connections + 256
        if soft < files:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(files, hard) if hard > 0 else files, hard))


class _JsonLines(logging.Formatter):
    """One JSON object a line, without text of clients, which the decoder and exceptions may name."""

    def format(self, record: logging.LogRecord) -> str:
        if record.name == "sharpbeam.server":
            return record.getMessage()  # an object already
        if Path(record.pathname).parent.name == "decoding" and isinstance(record.args, tuple):
            record.args = tuple("..." if isinstance(each, str) else each for each in record.args)
        message = record.getMessage().partition("\n")[0]
        error = record.exc_info[1] if record.exc_info else None
        line = {"event": "log", "level": record.levelname.lower(), "message": message}
        return json.dumps(line | (places(error) if error else {}))


def _log_lines() -> None:
    """Log one JSON object a line on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines())
    handler.addFilter(lambda record: not record.getMessage().startswith("Traceback"))  # where the server cannot start
    for name, level in LOGS.items():
        log = logging.getLogger(name)
        log.handlers = [handler]
        log.setLevel(level)
        log.propagate = False
