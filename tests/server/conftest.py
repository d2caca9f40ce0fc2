"""A server on the loopback interface, in a thread of the test process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from sharpbeam import Translator
from sharpbeam.documents import translate_text
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.server import ServerOptions

if TYPE_CHECKING:
    import httpx
    import uvicorn

PACKAGES = ("fastapi", "uvicorn", "httptools", "prometheus_client", "multipart", "httpx", "sharpbeam._core")
MACHINE = MachineOptions(threads=1)
PATIENCE = 60  # seconds: the machine may have other work


@dataclass
class Live:
    """A running server."""

    url: str
    client: httpx.Client
    server: uvicorn.Server

    def translate(self, q: Any, **fields: Any) -> Any:
        """The answer of /translate from xx to yy, the languages of the tiny model."""
        return self.client.post("/translate", json={"q": q, "source": "xx", "target": "yy"} | fields)

    def metric(self, name: str) -> float:
        """A metric without labels."""
        lines = self.client.get("/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if line.startswith(name + " "))


@pytest.fixture(scope="session")
def models(tiny_model: Path) -> list[str]:
    """The tiny model, as one from xx to yy."""
    return [f"xx-yy={tiny_model}"]


@pytest.fixture(scope="session")
def library(tiny_model: Path) -> Translator:
    """The tiny model, whose answers are those that a server must have."""
    return Translator(tiny_model, machine=MACHINE)


@contextmanager
def serving(models: list[str]) -> Iterator[Callable[..., Live]]:
    """Servers that end with the context."""
    for package in PACKAGES:
        pytest.importorskip(package, reason="needs the extra sharpbeam[server], httpx and the native core")
    import httpx
    import uvicorn

    from sharpbeam.server.app import create_app
    from sharpbeam.server.run import configuration, listen, url_of

    stop: list[Callable[[], None]] = []

    def start(models: list[str] = models, **options: Any) -> Live:
        chosen = ServerOptions(**{"port": 0, "drain": 5, **options})
        server = uvicorn.Server(configuration(create_app(models, chosen, MACHINE, max_length=40), chosen))
        listener = listen(chosen.host, chosen.port)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        live = Live(url_of(listener), httpx.Client(base_url=url_of(listener), timeout=60), server)

        def end() -> None:
            live.client.close()
            server.should_exit = True
            thread.join(PATIENCE)
            listener.close()
            assert not thread.is_alive()

        stop.append(end)
        wait_for(lambda: server.started or not thread.is_alive())
        assert server.started
        return live

    yield start
    for end in stop:
        end()


def expected(library: Translator, texts: Sequence[str]) -> list[str]:
    """The library's translations of texts, which a server must have too."""
    return [translate_text(library, text, max_length=40).content for text in texts]


def wait_for(condition: Callable[[], Any]) -> None:
    """Wait until a condition holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def serve(models: list[str]) -> Iterator[Callable[..., Live]]:
    """Start a server: `serve(models=..., **fields of ServerOptions)`."""
    with serving(models) as start:
        yield start


@pytest.fixture
def files_may_go_on(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Files stay in their workers, unread, until it is set."""
    from sharpbeam.server.worker import Task
    from sharpbeam.server.workers import KillableWorker

    ask, go_on = KillableWorker.ask, threading.Event()

    async def ask_later(self: KillableWorker, message: Any) -> Any:
        while isinstance(message, Task) and isinstance(message.content, bytes) and not go_on.is_set():
            await asyncio.sleep(0.005)
        return await ask(self, message)

    monkeypatch.setattr(KillableWorker, "ask", ask_later)
    return go_on


@pytest.fixture(scope="module")
def live(models: list[str]) -> Iterator[Live]:
    """A server with the default options, which tests share."""
    with serving(models) as start:
        yield start()
