"""Several processes on one port: shared limits and metrics, a process that dies, an orderly end of all."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from server.conftest import expected, wait_for

from sharpbeam import Translator
from sharpbeam.errors import OptionError
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.server import ServerOptions

for _package in ("fastapi", "uvicorn", "httptools", "prometheus_client", "multipart", "sharpbeam._core"):
    pytest.importorskip(_package, reason="needs the extra sharpbeam[server] and the native core")
if sys.platform == "win32":
    pytest.skip("one process on Windows", allow_module_level=True)
httpx = pytest.importorskip("httpx", reason="httpx is not installed")

LONG = " ".join(["balo"] * 300)


class Server:
    """Two processes that serve the tiny model."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process, self.url, self.lines = process, url, list[dict[str, Any]]()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(json.loads(line))

    @property
    def children(self) -> list[int]:
        """The processes that serve."""
        return children_of(self.process.pid)

    def ask(self, path: str = "/translate", **fields: Any) -> Any:
        """The answer on a connection of its own, which any process may accept."""
        return httpx.post(self.url + path, json={"source": "xx", "target": "yy"} | fields, timeout=60)

    def metric(self, name: str) -> float:
        """A metric, as the process says that accepts the connection."""
        lines = httpx.get(self.url + "/metrics", timeout=60).text.splitlines()
        return next((float(line.split()[-1]) for line in lines if line.startswith(name + " ")), 0.0)

    def end(self, number: int = signal.SIGTERM) -> int:
        """The status after a signal."""
        self.process.send_signal(number)
        status = self.process.wait(60)
        self._reader.join(60)
        return status


@contextmanager
def serving(model: Path, *flags: str) -> Iterator[Server]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "sharpbeam", "serve", f"xx-yy={model}", "--port", "0", "--processes", "2"]
    process = subprocess.Popen(
        [*command, "--max-length", "40", *flags], stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stderr is not None
    url = re.search(r"http://\S+\d", line := process.stderr.readline())
    assert url, line + process.stderr.read()
    server = Server(process, url[0])
    try:
        yield server
    finally:
        process.kill()


def children_of(process: int) -> list[int]:
    """The processes that a process started and that run."""
    completion = subprocess.run(["pgrep", "-P", str(process)], stdout=subprocess.PIPE, check=False)
    return [int(each) for each in completion.stdout.split()]


def begin_request(url: str) -> socket.socket:
    """A connection with a request in flight, which waits for its body of two bytes."""
    connection = socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 60)
    fields = "Host: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue"
    connection.sendall(f"POST /translate HTTP/1.1\r\n{fields}\r\n\r\n".encode())
    assert connection.recv(1000).startswith(b"HTTP/1.1 100")
    return connection


def refuses(url: str) -> bool:
    """Whether nothing listens there."""
    try:
        socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 60).close()
    except ConnectionRefusedError:
        return True
    return False


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[Server]:
    with serving(tiny_model) as started:
        yield started


def test_every_process_answers_as_the_library_and_one_says_what_all_counted(
    server: Server, library: Translator, sentences: list[str]
) -> None:
    reference = expected(library, sentences[:16])
    before, clients = server.metric("sharpbeam_sentences_total"), []
    for _ in range(8):
        clients.append(httpx.Client(base_url=server.url, timeout=60))  # which keep their connections
        clients[-1].get("/health")
    for client in clients:
        answer = client.post("/translate", json={"q": sentences[:16], "source": "xx", "target": "yy"})
        assert answer.json() == {"translatedText": reference}
    texts = [client.get("/metrics").text for client in clients]
    counted = {line for text in texts for line in text.splitlines() if line.startswith("sharpbeam_sentences_total ")}
    assert len(counted) == 1
    assert server.metric("sharpbeam_sentences_total") - before >= 8 * len(set(sentences[:16]))
    assert server.metric("sharpbeam_models") == 2
    characters = {client.get("/v2/usage").json()["character_count"] for client in clients}
    assert len(characters) == 1 and characters.pop() >= 8 * sum(map(len, sentences[:16]))
    for client in clients:
        client.close()


def test_a_file_of_one_process_is_downloaded_from_another(server: Server) -> None:
    fields = {"source": "xx", "target": "yy"}
    files = {"file": ("a.html", b"<p>Balo.</p>")}
    answer = httpx.post(server.url + "/translate_file", data=fields, files=files, timeout=60).json()
    assert {httpx.get(answer["translatedFileUrl"], timeout=60).status_code for _ in range(8)} == {200}


def test_a_killed_process_loses_its_own_requests_and_another_takes_its_place(
    server: Server, sentences: list[str]
) -> None:
    children = server.children
    total = server.metric("sharpbeam_sentences_total")
    os.kill(children[0], signal.SIGKILL)
    answers = Counter(server.ask(q=sentences[number % 8]).status_code for number in range(20))
    assert answers == {200: 20}  # of the other one
    wait_for(lambda: len(server.children) == 2 and children[0] not in server.children)
    wait_for(lambda: server.metric("sharpbeam_models") == 2)
    assert server.metric("sharpbeam_sentences_total") >= total + 20  # those of the dead are still counted
    assert server.metric("sharpbeam_pending_sentences") == 0
    assert [line["exit"] for line in server.lines if line["event"] == "process"] == [-signal.SIGKILL]


def test_warnings_are_logged_as_json_without_the_text_of_clients(tiny_model: Path) -> None:
    with serving(tiny_model, "--max-input-length", "8") as server:
        assert server.ask(q=" ".join(["balo"] * 40), glossary={"balo": "\u79d8\u5bc6"}).status_code == 200
        assert server.end() == 0
    messages = [line["message"] for line in server.lines if line["event"] == "log"]
    assert any("all after the first" in message for message in messages)
    assert any(message.startswith("the vocabulary cannot write '...'") for message in messages)


def test_limits_hold_for_all_processes_together(tiny_model: Path) -> None:
    flags = ["--queue-limit", "40", "--max-length", "400", "--no-guards", "--drain", "1"]
    with serving(tiny_model, *flags) as server:
        codes: list[int] = []
        texts = [f"{' '.join(['balo'] * 60)} {number}." for number in range(20)]
        asking = [threading.Thread(target=lambda: codes.append(server.ask(q=texts).status_code)) for _ in range(9)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        assert set(codes) == {200, 429}
        assert server.end() == 0


def test_sigterm_lets_the_requests_of_all_processes_finish(tiny_model: Path) -> None:
    flags = ["--char-limit", "0", "--max-length", "100", "--no-guards", "--drain", "60"]
    with serving(tiny_model, *flags) as server:
        texts, codes = [f"{LONG} {number}." for number in range(20)], list[int]()
        asking = [threading.Thread(target=lambda: codes.append(server.ask(q=texts).status_code)) for _ in range(6)]
        for thread in asking:
            thread.start()
        wait_for(lambda: server.metric("sharpbeam_pending_sentences") >= 100)
        assert server.end() == 0
        for thread in asking:
            thread.join()
        assert codes == [200] * 6


def test_the_processes_end_at_once_with_the_one_that_started_them(tiny_model: Path) -> None:
    with serving(tiny_model, "--char-limit", "0", "--max-length", "400", "--no-guards") as server:
        connection = begin_request(server.url)  # for which one of them would stay until the drain is over

        def lost() -> None:
            with pytest.raises(httpx.HTTPError):
                server.ask(q=[f"{LONG} {number}." for number in range(100)])

        asking = threading.Thread(target=lost)
        asking.start()
        wait_for(lambda: server.metric("sharpbeam_pending_sentences") >= 50)
        workers = [worker for child in server.children for worker in children_of(child)]
        running = [*server.children, *workers]
        assert len(running) >= 3
        server.process.kill()
        began = time.monotonic()
        server.process.wait(60)
        wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in running))
        assert time.monotonic() - began < 10  # the drain is 30
        assert refuses(server.url)
        connection.close()
        asking.join()


def test_after_sigterm_connections_are_refused_while_a_request_in_flight_is_answered(tiny_model: Path) -> None:
    with serving(tiny_model, "--drain", "60", "--body-timeout", "60") as server:
        connection = begin_request(server.url)
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: refuses(server.url))
        assert server.process.poll() is None
        connection.sendall(b"{}")
        assert connection.recv(1000).startswith(b"HTTP/1.1 400")
        connection.close()
        assert server.process.wait(60) == 0


def test_a_second_signal_ends_all_at_once_and_is_a_failure(tiny_model: Path) -> None:
    with serving(tiny_model, "--drain", "60", "--body-timeout", "60") as server, begin_request(server.url):
        server.process.send_signal(signal.SIGTERM)
        wait_for(lambda: refuses(server.url))
        began = time.monotonic()
        assert server.end() == 128 + signal.SIGTERM
        assert time.monotonic() - began < 20


def test_a_process_that_is_stuck_at_the_end_is_a_failure_of_the_server(tiny_model: Path) -> None:
    with serving(tiny_model, "--drain", "0") as server:
        os.kill(server.children[0], signal.SIGSTOP)
        assert server.end() == 1


def test_ctrl_c_ends_all(tiny_model: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "sharpbeam", "serve", f"xx-yy={tiny_model}", "--port", "0", "--processes", "2"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)
    assert process.stderr is not None
    assert "http://" in process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.stderr.read() == "sharpbeam: interrupted.\n"
    assert process.wait(60) == 130


def test_a_process_that_cannot_start_ends_the_server(tiny_model: Path, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    keys = ["--api-keys", str(tmp_path / "missing"), "--processes", "2", "--port", "0"]
    command = [sys.executable, "-m", "sharpbeam", "serve", f"xx-yy={tiny_model}", *keys]
    completion = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert completion.returncode == 1
    assert completion.stderr.count("cannot read the API keys") == 1
    assert "Traceback" not in completion.stderr


def test_the_number_of_processes_is_chosen_by_threads_models_and_memory() -> None:
    from sharpbeam.server.processes import LARGEST, MOST, processes_for

    options, machine = ServerOptions(), MachineOptions(threads=4)
    assert processes_for(options, machine, 1000) == 4
    assert processes_for(options, MachineOptions(threads=100), 1000) == MOST
    assert processes_for(options, machine, LARGEST + 1) == 1
    assert processes_for(replace(options, processes=3), machine, LARGEST + 1) == 3
    with pytest.raises(OptionError, match="processes is 2; it must be 1 on a GPU"):
        processes_for(replace(options, processes=2), MachineOptions(device="cuda"), 1000)
