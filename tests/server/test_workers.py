"""Work on documents: in processes that are killed when their client has left, or when it takes too much."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from server.conftest import Live, expected, wait_for

from sharpbeam import Translator
from sharpbeam.documents import translate_text
from sharpbeam.errors import InputError

for _package in ("fastapi", "uvicorn", "httptools", "prometheus_client", "multipart", "sharpbeam._core"):
    pytest.importorskip(_package, reason="needs the extra sharpbeam[server] and the native core")
if sys.platform != "linux":
    pytest.skip("looks into /proc", allow_module_level=True)

from sharpbeam.server.refusals import Fault, Refused  # noqa: E402
from sharpbeam.server.worker import Task  # noqa: E402
from sharpbeam.server.workers import Workers  # noqa: E402

SECRET = "a text of a client"


@dataclass(frozen=True)
class Hostile(Task):
    """A document that does something to the worker that reads it."""

    does: str = ""
    cpu_seconds: float = 0.1  # type: ignore[misc]

    def steps(self) -> Any:
        if self.does == "sleeps":
            time.sleep(600)
        while self.does == "takes time":
            pass
        if self.does == "takes memory":
            bytearray(2 * 2**30)
        if self.does == "ends":
            os._exit(7)
        if self.does == "has a fault":
            raise ValueError(SECRET)
        return (yield from super().steps())


def run(work: Callable[[Workers], Coroutine[Any, Any, Any]]) -> Any:
    """The result of `work` with workers, one at a time, that are ended after it."""

    async def whole() -> Any:
        workers = Workers(1)
        try:
            return await work(workers)
        finally:
            await workers.close()

    return asyncio.run(whole())


async def begin(workers: Workers, does: str = "", content: str = "Balo.") -> tuple[bool, Any]:
    async with workers.steps(Hostile(content, "text", does=does)) as advance:
        return await advance(None)


def children(parent: int) -> list[int]:
    """The workers of a process that are alive."""
    command = ["pgrep", "-P", str(parent), "-f", "sharpbeam.server.worker"]
    listed = subprocess.run(command, capture_output=True, check=False)
    return [pid for pid in map(int, listed.stdout.split()) if alive(pid)]


def alive(pid: int) -> bool:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def ignores_sigterm(pid: int) -> bool:
    ignored = re.search(r"SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text())
    return ignored is not None and bool(int(ignored[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize(
    ("does", "error", "message"),
    [
        ("takes time", InputError, "reading or writing it takes too much time for its size."),
        ("takes memory", InputError, "reading or writing it takes more than 1024 MiB of memory."),
        ("ends", Fault, ""),
        ("has a fault", Fault, ""),
    ],
)
def test_work_that_takes_too_much_is_an_error_and_the_next_has_another_worker(
    does: str, error: type[Exception], message: str
) -> None:
    async def work(workers: Workers) -> None:
        with pytest.raises(error) as raised:
            await begin(workers, does)
        assert str(raised.value) == message
        if isinstance(raised.value, Fault):
            assert SECRET not in json.dumps(raised.value.places)
        completion, (job,) = await begin(workers)
        assert (completion, job.text) == (False, "Balo.")

    run(work)


def test_cancelled_work_is_killed_and_what_waits_for_it_is_bounded() -> None:
    async def work(workers: Workers) -> None:
        stuck = asyncio.create_task(begin(workers, "sleeps"))
        while not children(os.getpid()):
            await asyncio.sleep(0.01)
        (before,) = children(os.getpid())
        waiting = asyncio.create_task(begin(workers, content="Balo." * 10_000_000))
        await asyncio.sleep(0)
        with pytest.raises(Refused, match="busy"):
            await begin(workers, content="Balo." * 4_000_000)
        waiting.cancel()
        stuck.cancel()
        await asyncio.wait([stuck, waiting])
        assert (await begin(workers))[1][0].text == "Balo."
        while alive(before):
            await asyncio.sleep(0.01)

    run(work)
    assert not children(os.getpid())


def test_a_document_of_many_steps_keeps_its_worker(library: Translator, sentences: list[str]) -> None:
    text = "\n".join(sentences[:12])

    async def work(workers: Workers) -> str:
        answers = None
        async with workers.steps(Task(text, "text", options=library_options(), attends=False)) as advance:
            while not (reply := await advance(answers))[0]:
                answers = library.translate([job.text for job in reply[1]], max_length=40)
                assert len(children(os.getpid())) == 1
        content: str = reply[1].content
        return content

    assert run(work) == translate_text(library, text, documents=library_options(), max_length=40).content


def library_options() -> Any:
    from sharpbeam.options.documents import DocumentOptions

    return DocumentOptions(guards=False, at_once=2)


def test_markup_and_long_texts_are_the_librarys_answers(live: Live, library: Translator, sentences: list[str]) -> None:
    markup = "".join(f"<p>{text[:-1]} <b>mike</b>.</p>" for text in sentences[:30])
    reference = translate_text(library, markup, format="html", max_length=40).content
    answer = live.translate(markup, format="html", alternatives=1, details=True).json()
    assert answer["translatedText"] == reference
    assert len(answer["details"]) >= 30 and answer["alternatives"][0].count("<p>") == 30
    text = " ".join(sentences)
    assert len(text) > 1000
    assert live.translate(text).json()["translatedText"] == expected(library, [text])[0]
    wrong = live.translate("<p>balo</p>" * 200, format="html", glossary={"balo": "Ax"}).json()
    assert wrong["translatedText"].count("Ax") == 200


def test_documents_count_towards_the_queue_limit(serve: Callable[..., Live]) -> None:
    live = serve(queue_limit=2)
    answer = live.translate(["<p>1</p>" * 200] * 3, format="html")
    assert (answer.status_code, answer.json()["error"][:28]) == (413, "the request has more than 2 ")
    assert live.translate("<p>1</p>" * 200, format="html").status_code == 200


def test_files_keep_no_worker_from_texts(
    serve: Callable[..., Live], sentences: list[str], files_may_go_on: threading.Event
) -> None:
    live, states = serve(), list[str]()
    line = " ".join(sentences[:40])
    form = {"source_lang": "xx", "target_lang": "yy"}
    for _ in range(6):
        files = {"file": ("a.txt", "\n".join(f"{n} {line}" for n in range(60)).encode()[:90_000])}
        sent = live.client.post("/v2/document", data=form, files=files).json()
        states.append(sent)
    text = (line + " ") * 4
    assert len(text) > 1000 and live.translate(text).status_code == 200
    waiting = [live.client.post(f"/v2/document/{one['document_id']}", json=one).json()["status"] for one in states]
    assert waiting == ["translating"] * 6
    files_may_go_on.set()


def test_a_deadline_kills_the_work_on_a_file(serve: Callable[..., Live]) -> None:
    live = serve(file_timeout=0.05)
    before = children(os.getpid())
    content = b"<p>Balo <b>mike</b> nodi.</p>" * 30_000
    form = {"source": "xx", "target": "yy"}
    answer = live.client.post("/translate_file", data=form, files={"file": ("a.html", content)})
    assert (answer.status_code, answer.json()) == (503, {"error": "no answer within 0.05 seconds"})
    wait_for(lambda: children(os.getpid()) == before)
    assert live.metric("sharpbeam_pending_sentences") == 0


@pytest.fixture
def busy(tiny_model: Path) -> Iterator[subprocess.Popen[str]]:
    """A server in a process of its own, whose worker has a large file."""
    import httpx

    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-m", "sharpbeam", "serve", f"xx-yy={tiny_model}", "--port", "0", "--threads", "1"]
    process = subprocess.Popen([*command, "--drain", "1"], stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    match = re.search(r"http://\S+\d", process.stderr.readline())
    assert match

    def send() -> None:
        content = b"<p>Balo <b>mike</b> nodi.</p>" * 60_000
        form = {"source": "xx", "target": "yy"}
        with suppress(httpx.HTTPError):
            files = {"file": ("a.html", content)}
            answer = httpx.post(f"{match[0]}/translate_file", data=form, files=files, timeout=60)
            process.answer = answer.status_code  # type: ignore[attr-defined]

    sender = process.sender = threading.Thread(target=send)  # type: ignore[attr-defined]
    sender.start()
    try:
        wait_for(lambda: children(process.pid))
        yield process
    finally:
        process.kill()
        process.wait()
        sender.join()


def test_workers_end_with_a_server_that_is_killed(busy: subprocess.Popen[str]) -> None:
    (worker,) = children(busy.pid)
    busy.kill()
    wait_for(lambda: not alive(worker))


def test_a_server_ends_after_its_drain_with_its_workers(busy: subprocess.Popen[str]) -> None:
    (worker,) = children(busy.pid)
    wait_for(lambda: ignores_sigterm(worker))
    os.kill(worker, signal.SIGTERM)  # as a service manager sends it to all
    began = time.monotonic()
    busy.send_signal(signal.SIGTERM)
    assert busy.wait(20) in (0, 1)
    assert 0.5 < time.monotonic() - began < 10
    wait_for(lambda: not alive(worker))
    busy.sender.join()  # type: ignore[attr-defined]
    assert busy.answer == 503  # type: ignore[attr-defined]


STUCK = """
import asyncio, sys, time
from sharpbeam.options.server import ServerOptions
from sharpbeam.server.run import listen, run

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)
        await receive()
        print("ending", flush=True)
        await send({"type": "lifespan.shutdown.complete"})

run(app, ServerOptions(drain=int(sys.argv[1])), listen("127.0.0.1", 0), lambda url: print(url, flush=True))
"""


@pytest.mark.parametrize(("drain", "signals", "status"), [(0, 1, 1), (60, 2, 128 + signal.SIGTERM)])
def test_a_stuck_server_ends_soon_after_its_drain_and_with_a_second_signal_at_once(
    drain: int, signals: int, status: int
) -> None:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, str(drain)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    try:
        assert process.stdout is not None and process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        if signals == 2:
            assert process.stdout.readline() == b"ending\n"  # or both could be taken as one
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) == status
    finally:
        process.kill()
