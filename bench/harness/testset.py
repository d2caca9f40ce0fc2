"""Real text to measure on, not part of the project: German to English, and English to Portuguese."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, TypeVar

from sharpbeam.text.lines import column_pairs, read_lines

DATA = "../shared/data"  # where the text is looked for, from the root of the project
TEST = "tatoeba/eng-deu.test.tsv.gz"
T = TypeVar("T")


class TestSet(NamedTuple):
    """Pairs in one file, with the columns of sources and references, or a file of each."""

    files: tuple[str, ...]
    columns: tuple[int, int] = (1, 0)


SETS = {
    "tatoeba": TestSet((TEST,)),  # German to English, as the next three
    "newstest2013": TestSet(("newstest/newstest2013.eng-deu.tsv.gz",)),
    "multi30k": TestSet(("multi30k/test_2016_flickr.de.gz", "multi30k/test_2016_flickr.en.gz")),
    "ntrex": TestSet(("ntrex/eng-deu.tsv.gz",)),
    "ntrex-en-pt": TestSet(("ntrex/eng-por.tsv.gz",), (0, 1)),  # these two are for Firefox's model
    "tatoeba-en-pt": TestSet(("tatoeba/eng-por.test.tsv.gz",), (0, 1)),
}


class NoDataError(Exception):
    """The text is not there."""


def test_file(data: str, name: str = TEST) -> Path:
    """The file of a set, by default of Tatoeba's test set, or NoDataError."""
    path = Path(data) / name
    if not path.is_file():
        raise NoDataError(f"no data: {path} is not there; give the folder with --data")
    return path


def test_pairs(data: str, sentences: int = 0, name: str = "tatoeba") -> tuple[list[str], list[str]]:
    """Sources and references of a set; `sentences` (0 = all) are taken at equal distances."""
    files, columns = SETS[name]
    paths = [test_file(data, file) for file in files]
    sides = column_pairs(paths[0], *columns) if len(paths) == 1 else zip(*map(read_lines, paths), strict=True)
    chosen = spread([(source, reference) for source, reference in sides], sentences)
    return [source for source, _ in chosen], [reference for _, reference in chosen]


def spread(lines: list[T], count: int) -> list[T]:
    """So many lines (0 = all) at equal distances: neighbors are of one document, and had one translator."""
    return [lines[index * len(lines) // count] for index in range(count)] if 0 < count < len(lines) else lines
