"""Real text to measure on: the Tatoeba test set beside the project, German to English."""

from __future__ import annotations

from pathlib import Path

from quickbeam.text.pairs import column_pairs

DATA = "../shared/data"  # where the text is looked for, from the root of the project
TEST = "tatoeba/eng-deu.test.tsv.gz"


class NoDataError(Exception):
    """The text is not there."""


def test_file(data: str) -> Path:
    """The test set's file, or NoDataError."""
    path = Path(data) / TEST
    if not path.is_file():
        raise NoDataError(f"no data: {path} is not there; give the folder with --data")
    return path


def german_english(data: str, sentences: int = 0) -> tuple[list[str], list[str]]:
    """German sources and English references; `sentences` (0 = all) are taken at equal distances."""
    pairs = list(column_pairs(test_file(data), 1, 0))
    chosen = pairs if not sentences else [pairs[i * len(pairs) // sentences] for i in range(sentences)]
    return [source for source, _ in chosen], [reference for _, reference in chosen]
