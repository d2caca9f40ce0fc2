"""Progress of jobs: how many of how many, how fast, and how long the rest will take."""

from __future__ import annotations

import pytest

from sharpbeam.jobs import progress
from sharpbeam.jobs.progress import Rate, duration, progress_bar


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 seconds"), (-1, "0 seconds"), (89, "89 seconds"), (117, "2 minutes"), (9000, "2 hours")],
)
def test_a_duration_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_the_end_is_told_from_the_rate_of_this_run(clock: list[float]) -> None:
    rate = Rate("sentences")
    assert rate.text(8600) == "0 of 8,600 sentences"
    rate.advance(984)  # of an interrupted run
    clock[0] += 100
    rate.advance(3500)
    assert rate.text(8600) == "4,484 of 8,600 sentences, 35 a second, 2 minutes left"
    assert rate.text(None) == "4,484 sentences, 35 a second"


def test_a_log_has_a_line_a_minute_with_the_total(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    counted = []

    def total() -> int:
        counted.append(1)
        return 1000

    with progress_bar("translating", total) as advance:
        for _ in range(200):
            advance(1)
            clock[0] += 1.0
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "translating: 61 of 1,000 sentences, 1.0 a second, 16 minutes left",
        "translating: 121 of 1,000 sentences, 1.0 a second, 15 minutes left",
        "translating: 181 of 1,000 sentences, 1.0 a second, 14 minutes left",
    ]
    assert len(counted) == 1
