"""Bad input, faults and limits: every request is answered or refused with a reason, and others go undisturbed."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from server.conftest import Live, expected, wait_for

from sharpbeam import OptionError, Translator

LONG = " ".join(["balo"] * 400)  # a sentence that is decoded for a while


def raw(live: Live, data: bytes, patience: float = 60.0) -> bytes:
    """The server's answer to bytes."""
    place = urlsplit(live.url)
    with socket.create_connection((place.hostname, place.port or 80), patience) as connection:
        connection.sendall(data)
        result = b""
        while part := connection.recv(65536):
            result += part
        return result


def post(body: bytes, kind: str = "application/json", length: int | None = None) -> bytes:
    head = f"POST /translate HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: "
    return f"{head}{len(body) if length is None else length}\r\n\r\n".encode() + body


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"", 400, "Invalid request: missing q parameter"),
        (b"{", 400, "Invalid JSON format"),
        (b'["not", "a", "dict"]', 400, "Invalid JSON format"),
        (b"\x00\xff\xfe\x80binary", 400, "Invalid JSON format"),
        ('{"q": "Grüße"}'.encode("latin-1"), 400, "Invalid JSON format: the body is not UTF-8, or too deep"),
        (b"[" * 100_000, 400, "Invalid JSON format: the body is not UTF-8, or too deep"),
        (b'{"q": ' + b"9" * 5000 + b"}", 400, "Invalid JSON format"),
        (b'{"q": "\\ud800", "source": "xx", "target": "yy"}', 400, "Invalid request: a text holds half a character"),
        (b"x" * 300_000, 413, "the request is larger than 204800 bytes"),
    ],
)
def test_bodies_that_cannot_be_read(
    serve: Callable[..., Live], sentences: list[str], body: bytes, status: int, message: str
) -> None:
    live = serve(body_limit=204_800)
    answer = live.client.post("/translate", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert answer.json()["error"].startswith(message)
    assert live.translate(sentences[0]).status_code == 200


def test_forms_that_cannot_be_read(serve: Callable[..., Live], sentences: list[str]) -> None:
    live = serve(body_limit=2048)
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"):
        for body in (b"", b"\x00\xff", b"--x\r\n\r\n\r\n", b"q=%ff&q=%00"):
            answer = live.client.post("/translate", content=body, headers={"Content-Type": kind})
            assert answer.status_code == 400, (kind, body)
            assert "error" in answer.json()
    chunked = live.client.post("/translate", content=(b"x" * 1000 for _ in range(5)))
    assert (chunked.status_code, chunked.json()) == (413, {"error": "the request is larger than 2048 bytes"})
    assert live.translate(sentences[0]).status_code == 200


def test_what_is_no_http(serve: Callable[..., Live], sentences: list[str]) -> None:
    live = serve()
    for data in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00" * 100):
        assert raw(live, data).startswith((b"HTTP/1.1 400", b""))
    endless = b"GET / HTTP/1.1\r\n" + b"".join(b"a%d: %s\r\n" % (n, b"x" * 1000) for n in range(100))
    with suppress(ConnectionError):
        assert raw(live, endless) == b""
    assert live.translate(sentences[0]).status_code == 200


def test_slow_clients_are_dropped(serve: Callable[..., Live], sentences: list[str]) -> None:
    live, patient = serve(header_timeout=0.4), serve(body_timeout=0.4)
    began = time.monotonic()
    with suppress(ConnectionError):  # it may be dropped before it has sent anything
        assert raw(live, b"POST /translate HTTP/1.1\r\nHost:") == b""  # no end of the head
    assert raw(live, b"") == b""
    slow = raw(patient, post(b'{"q": "a"', length=100))
    assert slow.startswith(b"HTTP/1.1 408")
    assert json.loads(slow.split(b"\r\n\r\n")[1]) == {"error": "the body of the request did not arrive in time"}
    assert time.monotonic() - began < 60  # they would be there for ever
    whole = post(json.dumps({"q": sentences[0], "source": "xx", "target": "yy"}).encode())
    assert raw(patient, whole).startswith(b"HTTP/1.1 200")


def test_a_client_that_leaves_is_cancelled(serve: Callable[..., Live], sentences: list[str]) -> None:
    live = serve(char_limit=0)
    fields = {"q": [f"{LONG} {n}." for n in range(200)], "source": "xx", "target": "yy"}
    place = urlsplit(live.url)
    with socket.create_connection((place.hostname, place.port or 80), 5) as connection:
        connection.sendall(post(json.dumps(fields).encode()))
        wait_for(lambda: live.metric("sharpbeam_pending_sentences"))
    wait_for(lambda: not live.metric("sharpbeam_pending_sentences"))
    assert live.metric("sharpbeam_sentences_total") < 200
    assert live.translate(sentences[0]).status_code == 200


def test_the_deadline_ends_the_work(serve: Callable[..., Live], sentences: list[str]) -> None:
    live = serve(timeout=0.05, char_limit=0)
    answer = live.translate([f"{LONG} {n}." for n in range(200)])
    assert (answer.status_code, answer.json()) == (503, {"error": "no answer within 0.05 seconds"})
    assert int(answer.headers["retry-after"]) >= 1
    wait_for(lambda: not live.metric("sharpbeam_pending_sentences"))
    assert live.metric("sharpbeam_sentences_total") < 200


def test_overload_is_refused_and_answers_stay_the_librarys(
    serve: Callable[..., Live], library: Translator, sentences: list[str]
) -> None:
    live = serve(queue_limit=8)
    sentences = sentences[:60]
    reference = dict(zip(sentences, expected(library, sentences), strict=True))

    def ask(number: int) -> int:
        texts = sentences[number % 57 :][:3]
        answer = live.translate(texts)
        if answer.status_code == 200:
            assert answer.json()["translatedText"] == [reference[text] for text in texts]
        else:
            assert answer.json() == {"error": "the server is busy; try again later"}
            assert int(answer.headers["retry-after"]) >= 1
        return int(answer.status_code)

    with ThreadPoolExecutor(24) as pool:
        statuses = list(pool.map(ask, range(200)))
    assert set(statuses) == {200, 429}
    assert live.metric("sharpbeam_pending_sentences") == 0
    many = live.translate(sentences[:9])
    assert (many.status_code, many.json()["error"][:28]) == (413, "the request has more than 8 ")


def test_a_request_for_which_there_is_no_place_is_refused_before_its_texts_are_read(
    serve: Callable[..., Live], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sharpbeam.server import worker

    live, texts = serve(queue_limit=8), list[str]()
    read = worker.read_document
    monkeypatch.setattr(worker, "read_document", lambda text, format: (texts.append(text), read(text, format))[1])
    assert live.translate(["a"] * 9).status_code == 413
    assert not texts
    assert live.translate(["a"] * 8).status_code == 200
    assert len(texts) == 8


def test_limits_are_said(serve: Callable[..., Live], sentences: list[str]) -> None:
    live = serve(char_limit=100, batch_limit=3)
    assert live.translate("a" * 101).json() == {"error": "Invalid request: request (101) exceeds text limit (100)"}
    assert live.translate(["a"] * 4).json() == {"error": "Invalid request: request (4) exceeds text limit (3)"}
    assert live.client.get("/frontend/settings").json()["charLimit"] == 100


def test_keys_are_needed_and_never_logged(
    serve: Callable[..., Live], sentences: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from hashlib import sha256

    keys = tmp_path / "keys.txt"
    keys.write_text(f"# mine\nopen sesame\nsha256:{sha256(b'another').hexdigest()}\n")
    live = serve(api_keys=str(keys))
    with caplog.at_level(logging.INFO, "sharpbeam"):
        assert live.translate(sentences[0]).json() == {"error": "Please contact the server operator to get an API key"}
        assert live.translate(sentences[0], api_key="wrong word").json() == {"error": "Invalid API key"}
        good = live.translate(sentences[0], api_key="open sesame")
        assert good.status_code == 200
        for headers in (
            {"Authorization": "Bearer another"},
            {"Authorization": "DeepL-Auth-Key another"},
            {"X-API-Key": "open sesame"},
        ):
            fields = {"q": sentences[0], "source": "xx", "target": "yy"}
            assert live.client.post("/translate", json=fields, headers=headers).json() == good.json()
        assert live.client.get("/metrics").status_code == 403
        metrics = live.client.get("/metrics", headers={"Authorization": "Bearer another"}).text
    assert live.client.get("/frontend/settings").json()["keyRequired"] is True
    logged = "".join(record.getMessage() for record in caplog.records) + metrics
    assert "/translate" in logged
    for secret in ("sesame", "another", "wrong word", sentences[0]):
        assert secret not in logged


def test_a_digest_that_is_none_is_no_key(serve: Callable[..., Live], sentences: list[str], tmp_path: Path) -> None:
    from hashlib import sha256

    keys, digest = tmp_path / "keys.txt", sha256(b"another").hexdigest()
    for line in (f"sha256:{digest}  -", f"SHA256:{digest[:-1]}", "sha256:"):
        keys.write_text(f"key\n{line}\n")
        with pytest.raises(OptionError, match="a line that begins with sha256:"):
            serve(api_keys=str(keys))
    keys.write_text(f"sha256:{digest.upper()}\n")
    assert serve(api_keys=str(keys)).translate(sentences[0], api_key="another").status_code == 200


def test_a_fault_of_ours_is_told_without_the_text(
    serve: Callable[..., Live], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from sharpbeam.server import worker

    live = serve()

    def broken(text: str, *others: Any) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(worker, "read_document", broken)
    with caplog.at_level(logging.INFO, "sharpbeam"):
        answer = live.translate("a secret text")
        # the line is written after the answer
        wait_for(lambda: any("RuntimeError" in record.getMessage() for record in caplog.records))
    assert (answer.status_code, answer.json()) == (500, {"error": "internal error"})
    assert not any("secret" in record.getMessage() for record in caplog.records)


def test_one_connection_is_one(serve: Callable[..., Live], sentences: list[str]) -> None:
    assert serve(max_connections=1).translate(sentences[0]).status_code == 200


def test_many_connections_are_held_open(serve: Callable[..., Live], sentences: list[str]) -> None:
    import resource

    reference = 1000  # here both ends of each are in this process
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * reference + 200:
        pytest.skip(f"this process may open {hard} files only")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * reference + 200), hard))
    live = serve(max_connections=reference + 5, header_timeout=60.0)
    place = urlsplit(live.url)
    held = []
    try:
        for _ in range(reference):
            held.append(socket.create_connection((place.hostname, place.port or 80), 5))
        assert live.translate(sentences[0]).status_code == 200
        for _ in range(20):
            held.append(socket.create_connection((place.hostname, place.port or 80), 5))
        time.sleep(0.2)
        refused = raw(live, post(json.dumps({"q": "a", "source": "xx", "target": "yy"}).encode()))
        assert refused.startswith(b"HTTP/1.1 503")
    finally:
        for connection in held:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    wait_for(lambda: live.client.get("/health").status_code == 200)
    assert live.translate(sentences[0]).status_code == 200
