"""Loops of a decoder are seen, and repetition that the source has too is not one."""

from __future__ import annotations

import time

import pytest

from sharpbeam.text.flags import is_loop


@pytest.mark.parametrize(
    ("source", "translation", "loop"),
    [
        ("Das ist unglaublich!", '"S.S.S.S.S.S.', True),
        ("Und?", "and and and and", True),
        ("Und?", "and and and", False),
        ("Ein Hund.", "a dog and a dog and a dog and", True),
        ("Hallo.", "\u54c8\u54c8\u54c8\u54c8", True),
        ("ha ha ha ha", "he he he he", False),
        ("Es war sehr, sehr kalt.", "It was very, very cold.", False),
        ("1, 2, 3, 4, 5, 6", "1, 2, 3, 4, 5, 6", False),
        ("Was?", "", False),
        ("Was?", f"{' '.join(map(str, range(12)))} " * 3, True),
        ("Was?", f"{' '.join(map(str, range(13)))} " * 3, False),
    ],
)
def test_loops_are_told_from_text(source: str, translation: str, loop: bool) -> None:
    assert is_loop(source, translation) == loop


def test_time_grows_with_the_length_of_a_text() -> None:
    began = time.perf_counter()
    assert is_loop("x", "a b c d e f g h i j k l m " * 20_000 + "n n n n")
    assert not is_loop("x", " ".join(map(str, range(100_000))))
    assert time.perf_counter() - began < 10
