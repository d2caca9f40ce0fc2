"""A short run of the fuzzer: it finds nothing, and it finds mistakes that are planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from fuzz import search_cases as fuzz

from sharpbeam.options.decode import SearchOptions
from sharpbeam.scheduling.stream import Stream
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Rows


def test_nothing_is_found() -> None:
    assert fuzz.misses(25) == []


def test_a_schedule_that_loses_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Stream.select

    def lossy(self: Stream, rows: Rows) -> Rows:
        result = whole(self, rows)
        siblings = len(result) > 1 and result.request[0] == result.request[1]
        return result.select(np.arange(1, len(result))) if siblings else result

    monkeypatch.setattr(Stream, "select", lossy)
    assert any("does not answer as batches" in message for message in fuzz.misses(10))


def test_a_proof_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hasty(BeamSearch):
        def __init__(self, options: SearchOptions, *ids: int) -> None:
            proven = options.early_stopping == "proven"
            super().__init__(replace(options, early_stopping="false") if proven else options, *ids)

    monkeypatch.setattr(fuzz, "BeamSearch", Hasty)
    assert any("proven is not exhaustive" in message for message in fuzz.misses(60))
