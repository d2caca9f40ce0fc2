"""Clients of a server on this machine: each sends its next request when it has the answer of the last one."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Load:
    """The answers that the clients saw."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)  # seconds of the requests that were answered
    answers: dict[str, str] = field(default_factory=dict)  # by text
    statuses: dict[int, int] = field(default_factory=dict)
    different: int = 0  # answers that were not those that the same text had before

    @property
    def throughput(self) -> float:
        """Answered requests per second."""
        return len(self.latencies) / self.seconds

    def latency(self, share: float) -> float:
        """The latency below which `share` of the requests were."""
        return sorted(self.latencies)[min(int(share * len(self.latencies)), len(self.latencies) - 1)]


def run_clients(
    url: str, texts: Sequence[str], languages: tuple[str, str], clients: int, seconds: float, think: float = 0.0
) -> Load:
    """The load of `clients` that ask for translations for so long, and think about each for `think` seconds on average.

    After an answer that is no success a client waits for a tenth of a second.
    """
    return asyncio.run(_all(url, texts, languages, clients, seconds, think))


async def _all(
    url: str, texts: Sequence[str], languages: tuple[str, str], clients: int, seconds: float, think: float
) -> Load:
    load, end = Load(), time.perf_counter() + seconds
    began = time.perf_counter()
    await asyncio.gather(*(_client(url, texts, languages, number, think, end, load) for number in range(clients)))
    load.seconds = time.perf_counter() - began
    return load


async def _client(
    url: str, texts: Sequence[str], languages: tuple[str, str], number: int, think: float, end: float, load: Load
) -> None:
    draw, place = random.Random(number), urlsplit(url)
    await asyncio.sleep(draw.random() * min(0.2, think or 0.2))
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    while time.perf_counter() < end:
        text = texts[draw.randrange(len(texts))]
        began = time.perf_counter()
        writer.write(request_bytes({"q": text, "source": languages[0], "target": languages[1]}))
        status, body = await answer(reader)
        load.statuses[status] = load.statuses.get(status, 0) + 1
        if status == 200:
            load.latencies.append(time.perf_counter() - began)
            translation = json.loads(body)["translatedText"]
            load.different += load.answers.setdefault(text, translation) != translation
        else:
            await asyncio.sleep(0.1)
        if think:
            await asyncio.sleep(draw.expovariate(1 / think))
    writer.close()


def request_bytes(fields: dict[str, str]) -> bytes:
    """A request for a translation."""
    body = json.dumps(fields).encode()
    head = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length:"
    return f"{head} {len(body)}\r\n\r\n".encode() + body


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of the next answer, which has a Content-Length."""
    head = await reader.readuntil(b"\r\n\r\n")
    status, length = int(head.split(b" ", 2)[1]), 0
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return status, await reader.readexactly(length)
