"""`sharpbeam serve` as a process: start, orderly end, help."""

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
from pathlib import Path

import pytest
from server.conftest import wait_for

for _package in ("fastapi", "uvicorn", "httptools", "prometheus_client", "multipart", "httpx", "sharpbeam._core"):
    pytest.importorskip(_package, reason="needs the extra sharpbeam[server], httpx and the native core")

COMMAND = [sys.executable, "-m", "sharpbeam", "serve"]


def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A server and its URL."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    # A process that was started in the background ignores it, and hands that on.
    heard = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen(
            [*COMMAND, *arguments, "--port", "0", "--threads", "1"], stderr=subprocess.PIPE, text=True, env=environment
        )
    finally:
        signal.signal(signal.SIGINT, heard)
    assert process.stderr is not None
    line = process.stderr.readline()
    result = re.search(r"http://\S+\d", line)
    assert result, line
    return process, result[0]


def test_sigterm_lets_requests_finish(tiny_model: Path) -> None:
    import httpx

    flags = ["--char-limit", "0", "--batch-limit", "0", "--max-length", "100", "--no-guards", "--drain", "90"]
    process, url = start(f"xx-yy={tiny_model}", *flags)
    answers: list[httpx.Response] = []
    texts = [" ".join(["balo"] * 300) + f" {number}." for number in range(60)]

    def ask() -> None:
        fields = {"q": texts, "source": "xx", "target": "yy"}
        answers.append(httpx.post(f"{url}/translate", json=fields, timeout=120))

    try:
        with httpx.Client(base_url=url, timeout=30) as client:
            while client.get("/health").status_code != 200:
                time.sleep(0.05)
            asking = threading.Thread(target=ask)
            asking.start()
            while "sharpbeam_pending_sentences 0.0" in client.get("/metrics").text:
                time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
        assert process.wait(120) == 0
        asking.join(120)
    finally:
        process.kill()
    assert [answer.status_code for answer in answers] == [200]
    assert len(answers[0].json()["translatedText"]) == 60
    last = lines[-1]
    assert (last["route"], last["status"], last["texts"]) == ("/translate", 200, 60)
    assert not any("balo" in json.dumps(line) for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing"], "there is no model 'nothing'"),
        (["enpt=nothing"], "there is no model 'nothing'"),
        (["english={model}"], "'english' does not say which; write SOURCE-TARGET=FOLDER"),
        (["xx-yy={model}", "--pivot", "--api-keys", "keys"], "'--pivot' needs a value"),
        (["xx-yy={model}", "--pivot", "english"], "pivot is 'english'; it must be a code such as en"),
        (["{model}"], "write SOURCE-TARGET=FOLDER"),
        (["xx-yy={model}", "--port", "70000"], "port is 70000; it must be between 0 and 65535"),
        (["xx-yy={model}", "--api-keys", "missing"], "cannot read the API keys in missing"),
        (["xx-yy={model}", "--host", "not an address"], "cannot listen on not an address port 5000"),
        (["xx-yy={model}", "--port", "0", "--output-layer", "screen"], "has no screen. Make it with"),
        (["xx-yy={model}", "--prefix-bias-beta", "0.2"], "No such option: --prefix-bias-beta"),
        ([], "MODEL... is missing: Folders or names"),
    ],
)
def test_what_cannot_be_served_is_said_in_a_line(tiny_model: Path, arguments: list[str], message: str) -> None:
    command = [argument.format(model=tiny_model) for argument in arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    completion = subprocess.run(
        [*COMMAND, *command], capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert completion.returncode in (1, 2)
    assert message in completion.stderr
    assert "Traceback" not in completion.stderr


@pytest.mark.parametrize("wait", [0.0, 0.5])
def test_ctrl_c_ends_without_a_traceback(tiny_model: Path, wait: float) -> None:
    process, _ = start(f"xx-yy={tiny_model}")
    assert process.stderr is not None
    try:
        time.sleep(wait)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == "sharpbeam: interrupted.\n"
        assert process.wait(60) == 130
    finally:
        process.kill()


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


@pytest.mark.parametrize(("again", "status"), [(False, 0), (True, 128 + signal.SIGTERM)])
def test_after_sigterm_connections_are_refused_and_one_in_flight_is_answered_unless_a_second_comes(
    tiny_model: Path, again: bool, status: int
) -> None:
    process, url = start(f"xx-yy={tiny_model}", "--drain", "60", "--body-timeout", "60")
    try:
        connection = begin_request(url)
        process.send_signal(signal.SIGTERM)
        wait_for(lambda: refuses(url))
        assert process.poll() is None
        if again:
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
        else:
            connection.sendall(b"{}")
            assert connection.recv(1000).startswith(b"HTTP/1.1 400")
        connection.close()
        assert process.wait(60) == status
        assert not again or time.monotonic() - began < 20
    finally:
        process.kill()


def test_warnings_are_logged_as_json_without_the_text_of_clients(tiny_model: Path) -> None:
    import httpx

    process, url = start(f"xx-yy={tiny_model}", "--max-input-length", "8")
    try:
        fields = {"q": " ".join(["balo"] * 40), "source": "xx", "target": "yy", "glossary": {"balo": "\u79d8\u5bc6"}}
        assert httpx.post(f"{url}/translate", json=fields, timeout=60).status_code == 200
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        lines = [json.loads(line) for line in process.stderr.read().splitlines()]
        assert process.wait(60) == 0
    finally:
        process.kill()
    messages = [line["message"] for line in lines if line["event"] == "log"]
    assert any("all after the first" in message for message in messages)
