"""The loop of all bulk jobs: items in, answers out in the same order, a chunk at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")

CHUNK = 512  # items that are read and answered together, at most: bounds memory, and the work that a kill can lose
CHUNK_SECONDS = 10.0  # that a chunk should take, at most: the work that a kill can lose with a slow model
FIRST_CHUNK = 16  # items: how long they take is not known yet
GROWTH = 4  # of a chunk to the next: items may become longer


def next_chunk(items: int, seconds: float) -> int:
    """How many items to take together after a chunk of `items`, 1 or more, that took `seconds`."""
    return int(max(1, min(CHUNK, GROWTH * items, items * CHUNK_SECONDS / max(seconds, 1e-9))))


def chunked_answers(
    items: Iterator[Item],
    answer: Callable[[list[Item]], Generator[tuple[int, Answer], None, None]],
    *,
    commit: Callable[[], None] = lambda: None,
    ready: Callable[[], bool] = lambda: True,
    fixed: int = 0,
) -> Generator[tuple[Item, Answer], None, None]:
    """Every item and its answer, in order and as soon as that is known.

    `answer` takes a chunk of items, and yields (position in the chunk, answer) in any order. `commit` is called after
    each chunk. A chunk ends early if `ready` says that the next item would have to be waited for: the sender
    may wait for an answer. With `fixed` all chunks have that many items, whatever time they take.
    """
    size = fixed or min(FIRST_CHUNK, CHUNK)
    while chunk := _take(items, size, (lambda: True) if fixed else ready):
        since = time.perf_counter()
        waiting: dict[int, Answer] = {}
        count = 0
        with closing(answer(chunk)) as results:
            for position, result in results:
                waiting[position] = result
                while count in waiting:
                    yield chunk[count], waiting.pop(count)
                    count += 1
        commit()
        size = fixed or next_chunk(len(chunk), time.perf_counter() - since)


def _take(items: Iterator[Item], most: int, ready: Callable[[], bool]) -> list[Item]:
    """The next items, at most `most`; fewer if the next one is not ready."""
    chunk: list[Item] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == most or not ready():
            break
    return chunk


@contextmanager
def without_warnings() -> Iterator[None]:
    """Drop what is said of texts that are cut, while a job runs that says it with the numbers of lines."""
    logger = logging.getLogger("sharpbeam.texts")

    def none(_: logging.LogRecord) -> bool:
        return False

    logger.addFilter(none)
    try:
        yield
    finally:
        logger.removeFilter(none)
