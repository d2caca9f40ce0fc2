"""Clients that mean harm: small requests that would take long, connections without end, keys that are guessed."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from server.conftest import Live

HEAD = b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def connect(live: Live) -> socket.socket:
    place = urlsplit(live.url)
    return socket.create_connection((place.hostname, place.port or 80), 30)


def let_heads_take(seconds: float, live: Live, connection: socket.socket, patch: pytest.MonkeyPatch) -> None:
    """Change the time for a head once a connection is there and idle: none is late before it begins."""
    connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    while not answer.endswith(b'"ok"}'):  # the body may come after the head
        part = connection.recv(4096)
        assert part
        answer += part
    assert answer.startswith(b"HTTP/1.1 200")
    kind = live.server.config.http_protocol_class
    patch.setattr(kind, "options", replace(kind.options, header_timeout=seconds))


def rest(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


def send_until_closed(connection: socket.socket, part: bytes, most: int = 1000) -> int:
    """How many parts could be sent."""
    for count in range(most):
        try:
            connection.sendall(part)
        except (ConnectionResetError, BrokenPipeError):
            return count
    return most


def multipart(live: Live, kind: str, fields: dict[str, bytes], path: str = "/translate", **headers: str) -> Any:
    parts = [b'--x\r\nContent-Disposition: form-data; name="%b"\r\n\r\n%b\r\n' % (name.encode(), value)
             for name, value in fields.items()]  # fmt: skip
    content = b"".join(parts) + b"--x--\r\n"
    return live.client.post(path, content=content, headers={"Content-Type": kind} | headers)


@pytest.mark.parametrize("charset", ["punycode", "undefined", "utf-16", "no such charset"])
def test_a_form_is_utf_8_whatever_charset_it_names(live: Live, charset: str) -> None:
    fields = {"q": "Balö.".encode(), "source": b"xx", "target": b"yy"}
    began = time.process_time()
    answer = multipart(live, f"multipart/form-data; boundary=x; charset={charset}", fields | {"q-": b"a" * 100_000})
    assert time.process_time() - began < 0.6  # as punycode these letters take longer
    assert (answer.status_code, answer.json()) == (200, live.translate("Balö.").json())
    wrong = multipart(live, 'multipart/form-data; boundary="{}"', fields)
    assert (wrong.status_code, wrong.json()["error"][:26]) == (400, "Invalid form: the boundary")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"glossary": 5}, "Invalid request: glossary parameter is not an object of terms and their translations"),
        ({"glossary": True}, "Invalid request: glossary parameter is not an object of terms and their translations"),
        ({"glossary": {"a": "\ud800"}}, "Invalid request: a text holds half a character (a surrogate)"),
        ({"alternatives": "--5"}, "Invalid request: alternatives parameter is not a number"),
        ({"alternatives": "5-"}, "Invalid request: alternatives parameter is not a number"),
        ({"source": "\ud800"}, "Invalid request: a text holds half a character (a surrogate)"),
        ({"format": "\udfff"}, "Invalid request: a text holds half a character (a surrogate)"),
    ],
)
def test_wrong_fields_are_refused_by_name(live: Live, fields: dict[str, Any], message: str) -> None:
    body = {"q": "Balo.", "source": "xx", "target": "yy"} | fields
    answer = live.client.post("/translate", content=json.dumps(body).encode())
    assert (answer.status_code, answer.json()) == (400, {"error": message})
    count = {"sentence": "Balo.", "source": "xx", "target": "yy", "count": "--1"}
    assert live.client.post("/alternatives", json=count).status_code == 400


def test_a_key_in_a_header_is_checked_before_the_body(serve: Callable[..., Live], tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("open sesame\n")
    live = serve(api_keys=str(tmp_path / "keys"), body_timeout=20.0)
    wrong = {"q": "a", "source": "xx", "target": "yy", "api_key": "wrong"}
    assert live.client.post("/translate", json=wrong).status_code == 403
    with connect(live) as connection:  # the body never comes
        connection.sendall(HEAD + b"X-API-Key: wrong\r\nContent-Length: 1000\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 403")
    assert live.client.get("/metrics").status_code == 403
    del wrong["api_key"]
    for name, status in (("api_key", 200), ("auth_key", 200), ("key", 403)):
        assert live.client.post("/translate", json=wrong, params={name: "open sesame"}).status_code == status
        assert live.client.get("/v2/usage", params={name: "open sesame"}).status_code == status
    right = {"Authorization": "Bearer open sesame"}
    assert live.client.post("/translate", json=wrong, headers=right).status_code == 200


@pytest.mark.parametrize("begin", [b"GET /h", b"\r\n", b"GET /health HTTP/1.1\r\nHost: x\r\nA: "])
def test_each_request_of_a_connection_has_a_deadline(
    serve: Callable[..., Live], begin: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = serve()
    with connect(live) as connection:
        for seconds in (10.0, 0.3):
            let_heads_take(seconds, live, connection, monkeypatch)
        began = time.monotonic()
        connection.sendall(begin)
        assert rest(connection) == b""
        assert time.monotonic() - began < 20  # idle connections are kept for longer


@pytest.mark.parametrize("kind", [b"h2c", b"websocket"])
def test_a_body_after_an_upgrade_is_a_body_and_no_request(live: Live, kind: bytes) -> None:
    """Java's client asks for HTTP/2 in its first request; its body may come after its head."""
    ours = b"Content-Type: application/x-www-form-urlencoded"
    for body in (b"source=xx&target=yy&q=Balo.", b"q=\r\nUpgrade: a\r\n\r\n&source=xx&target=yy"):
        head = b"POST /translate HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\nuPgrade : ".replace(b" :", b":")
        head += kind + b"\r\n" + ours + b"\r\nContent-Length: %d\r\n\r\n" % len(body)
        plain = live.client.post("/translate", content=body, headers=dict([ours.decode().split(": ")])).json()
        for parts in ([head + body], [head, body], [head[:-2], head[-2:] + body]):
            with connect(live) as connection:
                for part in parts:
                    connection.sendall(part)
                    time.sleep(0.05)
                answer = rest(connection)
            assert answer.startswith(b"HTTP/1.1 200") and json.loads(answer.partition(b"\r\n\r\n")[2]) == plain


def test_an_upgrade_that_is_not_seen_is_refused(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    from sharpbeam.server.connection import _Connection

    receive, received = _Connection.data_received, threading.Event()

    def noted(self: _Connection, data: bytes) -> None:
        receive(self, data)
        received.set()

    monkeypatch.setattr(_Connection, "data_received", noted)
    with connect(live) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpg")
        assert received.wait(60)  # or both parts may come as one
        connection.sendall(b"rade: h2c\r\n\r\nGET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert rest(connection).startswith(b"HTTP/1.1 400")


def test_a_head_may_wait_for_the_answer_before_it(serve: Callable[..., Live], monkeypatch: pytest.MonkeyPatch) -> None:
    live = serve()
    body = json.dumps({"q": ["balo mike " * 100] * 20, "source": "xx", "target": "yy"}).encode()
    with connect(live) as connection:
        let_heads_take(0.1, live, connection, monkeypatch)
        connection.sendall(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body + b"GET /he")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    "begin",
    [
        b"",
        b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n",  # and the head of a second request
        HEAD + b"A: ",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;",  # an extension of a chunk
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\nA: ",  # a trailer
    ],
)
def test_what_has_no_end_ends_the_connection(live: Live, begin: bytes) -> None:
    with connect(live) as connection:
        connection.sendall(begin)
        sent = send_until_closed(connection, b"a" * 8192)
    assert sent < 500  # of 1000; what the system holds is not read by the server
    assert live.client.get("/health").status_code == 200


def test_a_body_in_tiny_chunks_ends_the_connection(live: Live) -> None:
    with connect(live) as connection:
        connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        assert send_until_closed(connection, b"1\r\na\r\n" * 1500, 3000) < 2000  # buffers take some megabytes


def test_small_chunks_are_a_body(live: Live) -> None:
    body = json.dumps({"q": "Balo.", "source": "xx", "target": "yy"} | {"x": "a" * 20_000}).encode()
    answer = live.client.post("/translate", content=(body[at : at + 10] for at in range(0, len(body), 10)))
    assert answer.json() == live.translate("Balo.").json()


def test_a_body_that_goes_on_after_its_refusal_ends_the_connection(
    serve: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sharpbeam.server.connection.LINGER", 0.2)
    live = serve(body_limit=2048, body_timeout=0.3)
    for begin, status in (
        (b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n", b"HTTP/1.1 413"),
        (b"POST /translate HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\na", b"HTTP/1.1 408"),
        (b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\na", b"HTTP/1.1 404"),
    ):
        with connect(live) as connection:
            connection.sendall(begin)
            assert rest(connection).startswith(status)
            began = time.monotonic()
            while send_until_closed(connection, b"a", 1) and time.monotonic() - began < 30:
                time.sleep(0.05)
            assert time.monotonic() - began < 5


def test_a_client_that_does_not_read_is_dropped(serve: Callable[..., Live]) -> None:
    live = serve(body_timeout=0.2, char_limit=0)
    body = json.dumps({"q": "1" * 800_000, "source": "xx", "target": "xx"}).encode()
    place = urlsplit(live.url)
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect((place.hostname, place.port))
        request = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
        assert send_until_closed(connection, request, 40) < 40


def test_requests_that_wait_for_others_are_bounded(live: Live) -> None:
    with connect(live) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        received = b""
        while received.count(b'{"status":"ok"}') < 200:
            received += connection.recv(65536)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 5000)
        assert b"HTTP/1.1 400" in rest(connection)
