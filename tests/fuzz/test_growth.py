"""A share of the sweep over texts that grow; `python tests/fuzz/growth.py` is the whole of it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("markdown_it", reason="the extra documents is not installed")
pytest.importorskip("python_multipart", reason="the extra server is not installed")
pytest.importorskip("resource", reason="processes are those of POSIX")
if not Path("/proc/self/clear_refs").exists():
    pytest.skip("memory is read from /proc", allow_module_level=True)

from fuzz.growth import growth
from fuzz.growth_patterns import patterns

from sharpbeam.documents import format_names

SOME = (
    "html, closers of nothing", "html, open inside", "xhtml, elements", "html: sentences in tags, attended",
    "html, other fixed, attended", "html, long number", "po: percent zeros", "json: percent zeros",
    "markdown: brackets", "srt: words", "text: stops", "subtitles, long cue", "request: part charset",
    "docx, paragraphs", "epub, page of tags",
)  # fmt: skip


@pytest.mark.parametrize("name", SOME)
def test_time_and_memory_grow_as_the_text_does(name: str) -> None:
    pattern = next(each for each in patterns() if each.name == name)
    assert growth(pattern, (5_000, 40_000), most=3.0).failure == ""  # a square would be 8.0


def test_there_are_patterns_for_every_format() -> None:
    assert {each.format for each in patterns()} == {*format_names(), "request"}
    assert len(patterns()) >= 200
