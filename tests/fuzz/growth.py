"""How processor time and memory of documents grow with their size: `python tests/fuzz/growth.py [NAME ...]`.

Each pattern is read, translated by a decoder that returns its source, and written, at SIZES bytes, each time in a
process of its own with a limit of LIMIT seconds. It fails where the processor time of the larger one is more than
MOST_TIME times what linear growth of the smaller one would be (times below FLOOR seconds count as FLOOR; the least of
up to REPEATS runs counts; the collector of cycles is off), or where the peak of the resident memory of the process is
above that before the document by more than ALLOWANCE and ten times the content. A content that is refused with an
InputError is fine.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]

from fuzz.growth_patterns import Pattern, patterns
from pydantic import Field
from starlette.requests import Request
from starlette.types import Message
from support.decoders import answer, run

from sharpbeam.decoding.results import EMPTY, Translation
from sharpbeam.documents import document_steps, read_document
from sharpbeam.errors import InputError
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.server.bodies import RequestFields, Terms, Texts, glossary_of, read_fields
from sharpbeam.server.refusals import Refused
from sharpbeam.text.glossary import Glossary

SIZES = (20_000, 80_000)
LIMIT = 60.0
MOST_TIME = 1.3
FLOOR = 0.02
REPEATS = 4
ALLOWANCE = 64 << 20
TIMES = 10


@dataclass
class Growth:
    """Time and memory of a pattern at each size."""

    pattern: Pattern
    sizes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)  # of the processor
    memory: list[int] = field(default_factory=list)  # bytes above those before
    failure: str = ""

    @property
    def exponent(self) -> float:
        """Of the growth of time; 0 below the floor."""
        if len(self.sizes) < 2 or self.seconds[-1] <= FLOOR:
            return 0.0
        first, last = (max(FLOOR, value) for value in (self.seconds[0], self.seconds[-1]))
        return math.log(last / first) / math.log(self.sizes[-1] / self.sizes[0])


def work(pattern: Pattern, content: str | bytes) -> None:
    """Translate a document, or read the fields of a request; or have it refused."""
    if isinstance(content, bytes) and pattern.format == "request":
        asyncio.run(read_request(content))
        return

    def same(source: str) -> Translation:
        return Translation(source, (replace(EMPTY, text=source),))

    def attended(source: str) -> Translation:
        count = len(source.split())
        answers = _answer(count)
        tokens = tuple("▁" + word for word in source.split())
        best = replace(answers.hypotheses[0], text=source, tokens=tokens)
        return replace(answers, source=source, hypotheses=(best,), source_tokens=tokens)

    fields = ("b",) if pattern.format == "csv" else ()
    try:
        document = read_document(content, pattern.format, fields)
        terms = Glossary({f"w{n}": [f"v{n}", f"x{n}"] for n in range(pattern.terms)}) if pattern.terms else None
        options = DocumentOptions(guards=pattern.attended)
        steps = document_steps(document, options, "en", pattern.attended, terms, target="pt")
        run(steps, attended if pattern.attended else same)
    except InputError:
        pass


class OneField(RequestFields):
    """A field of each kind."""

    text: str = ""
    number: int = 0
    texts: Texts = ""
    glossary: Terms = Field({})


async def read_request(content: bytes) -> None:
    """Read the fields of a request, each as a text, a number, texts and a glossary."""
    kind, _, body = content.partition(b"\n")

    async def receive() -> Message:
        return {"type": "http.request", "body": body}

    scope = {"type": "http", "method": "POST", "path": "/", "app": None, "headers": [(b"content-type", kind)]}
    try:
        fields = await read_fields(Request(scope, receive), 1 << 30, 3600)
    except Refused:
        return
    for value in [*fields.values()][:1000]:
        for name in ("text", "number", "texts", "glossary"):
            with suppress(Refused):
                glossary_of(OneField.of({name: value}).glossary)


@cache
def _answer(count: int) -> Translation:
    """Words with an attention that all answers of as many share: that of a model is its own."""
    text = " ".join(["a"] * count)
    return answer(text, text)


def measured(pattern: Pattern, content: str | bytes, limit: float = LIMIT) -> tuple[float, int] | str:
    """Seconds of the processor and bytes of memory in a process of its own, or how it failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(reading)
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
            gc.disable()  # its passes over what lives are the interpreter's, and grow a little faster than the heap
            Path("/proc/self/clear_refs").write_text("5")  # the peak begins here
            before, since = _resident("VmRSS"), time.process_time()
            work(pattern, content)
            os.write(writing, struct.pack("dq", time.process_time() - since, max(0, _resident("VmHWM") - before)))
            status = 0
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}".encode()[:200])
        finally:
            os._exit(status)
    os.close(writing)
    try:
        if not select.select([reading], [], [], limit)[0]:
            os.kill(child, signal.SIGKILL)
            return f"not done in {limit:.0f} s"
        answer = os.read(reading, 512)
    finally:
        os.close(reading)
        _, status = os.waitpid(child, 0)
    if status:
        return answer.decode(errors="replace") or f"ended with status {status}"
    seconds, memory = struct.unpack("dq", answer)
    return seconds, memory


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def growth(pattern: Pattern, sizes: Sequence[int] = SIZES, most: float = MOST_TIME, limit: float = LIMIT) -> Growth:
    """The growth of a pattern over `sizes`; more than `most` times linear time is a failure."""
    outcome = Growth(pattern)
    contents = [pattern.make(size) for size in sizes]
    for _ in range(REPEATS):
        for at, content in enumerate(contents):
            result = measured(pattern, content, limit)
            if isinstance(result, str):
                outcome.failure = f"{result} ({len(content)})"
                return outcome
            if at == len(outcome.sizes):
                outcome.sizes.append(len(content.encode(errors="replace") if isinstance(content, str) else content))
                outcome.seconds.append(result[0])
                outcome.memory.append(result[1])
            outcome.seconds[at] = min(outcome.seconds[at], result[0])
            outcome.memory[at] = min(outcome.memory[at], result[1])
        outcome.failure = _failure(outcome, most)
        if not outcome.failure:
            break
    return outcome


def _failure(outcome: Growth, most: float) -> str:
    first, last = (max(FLOOR, value) for value in (outcome.seconds[0], outcome.seconds[-1]))
    times = outcome.sizes[-1] / outcome.sizes[0]
    if last > most * times * first:
        return f"{outcome.seconds[0]:.3f} s and {outcome.seconds[-1]:.3f} s for {times:.1f} times the size"
    if outcome.memory[-1] > ALLOWANCE + TIMES * outcome.sizes[-1]:
        return f"{outcome.memory[-1] >> 20} MiB for {outcome.sizes[-1]} bytes"
    return ""


def table(grown: Iterable[Growth]) -> str:
    """Patterns with the worst exponents and memory, and those that failed."""
    every = list(grown)
    slow = sorted(every, key=lambda each: -each.exponent)[:10]
    large = sorted(every, key=lambda each: -max(each.memory, default=0))[:10]
    lines = [f"{len(every)} patterns, {sum(bool(each.failure) for each in every)} failed", ""]
    lines += ["| pattern | exponent | seconds | MiB |", "|---|---|---|---|"]
    for each in dict.fromkeys(each.pattern.name for each in [*slow, *large]):
        one = next(other for other in every if other.pattern.name == each)
        lines.append(
            f"| {each} | {one.exponent:.2f} | {one.seconds[-1] if one.seconds else 0:.3f} | "
            f"{max(one.memory, default=0) / 2**20:.1f} |"
        )
    lines += [f"FAILED {each.pattern.name}: {each.failure}" for each in every if each.failure]
    return "\n".join(lines)


def main() -> int:
    """Measure the patterns whose names hold one of the arguments, or all."""
    chosen = [each for each in patterns() if any(part in each.name for part in sys.argv[1:] or [""])]
    grown = []
    for pattern in chosen:
        grown.append(growth(pattern))
        if grown[-1].failure:
            print(f"{pattern.name}: {grown[-1].failure}", file=sys.stderr, flush=True)
    print(table(grown))
    return int(any(each.failure for each in grown))


if __name__ == "__main__":
    sys.exit(main())
