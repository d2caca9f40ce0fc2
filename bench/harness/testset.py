"""Real text to measure on, not part of the project: German to English, and English to Portuguese."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from sharpbeam.text.lines import column_pairs, read_lines

DATA = "../shared/data"  # where the text is looked for, from the root of the project
TEST = "tatoeba/eng-deu.test.tsv.gz"
MULTI30K = ("multi30k/test_2016_flickr.de.gz", "multi30k/test_2016_flickr.en.gz")  # German, English
NTREX, NTREX_EN_PT = "ntrex/eng-deu.tsv.gz", "ntrex/eng-por.tsv.gz"
NEWS_TEST = "newstest/newstest2013.eng-deu.tsv.gz"
T = TypeVar("T")
TestSet = str | tuple[str, str]  # pairs in one file, or a file of sources and one of references


class NoDataError(Exception):
    """The text is not there."""


def test_file(data: str, name: str = TEST) -> Path:
    """The file of a set, by default of Tatoeba's test set, or NoDataError."""
    path = Path(data) / name
    if not path.is_file():
        raise NoDataError(f"no data: {path} is not there; give the folder with --data")
    return path


def german_english(data: str, sentences: int = 0, name: TestSet = TEST) -> tuple[list[str], list[str]]:
    """German sources and English references of a set; `sentences` (0 = all) are taken at equal distances.

    Of NTREX_EN_PT the sources are English, and the references Portuguese.
    """
    if isinstance(name, str):
        pairs = list(column_pairs(test_file(data, name), *((0, 1) if name == NTREX_EN_PT else (1, 0))))
    else:
        pairs = list(zip(*(read_lines(test_file(data, one)) for one in name), strict=True))
    chosen = spread(pairs, sentences)
    return [source for source, _ in chosen], [reference for _, reference in chosen]


def spread(lines: list[T], count: int) -> list[T]:
    """So many lines (0 = all) at equal distances: neighbors are of one document, and had one translator."""
    return [lines[index * len(lines) // count] for index in range(count)] if 0 < count < len(lines) else lines
