"""Sample sentences, written for this project: text to fit and to measure on where the user gives none.

Files of 70 sentences a language are in the folder `samples`: news, everyday talk, long sentences, questions, numbers,
names. Text of the kind that is translated is better.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sharpbeam.text.sentences import short_code
from sharpbeam.text.vocabulary import Vocabulary

_FOLDER = Path(__file__).parent / "samples"
FEW = 12  # sentences by which a language is recognized
UNKNOWN = 8  # tokens that a character counts as that the vocabulary lacks


@cache
def sample_languages() -> tuple[str, ...]:
    """The codes of the languages that there are sentences of."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.txt")))


def sample(language: str) -> list[str]:
    """The sentences of a language, by its code ("de", "de-AT", "deu_Latn"); of none that is here, English ones."""
    code = short_code(language)[:2]
    path = _FOLDER / f"{code if code in sample_languages() else 'en'}.txt"
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def language_of(vocabulary: Vocabulary) -> str:
    """The language whose sentences the vocabulary writes in the fewest tokens: for a model that names none."""

    def cost(language: str) -> float:
        tokens = size = 0
        for line in sample(language)[:FEW]:
            ids = vocabulary.encode(line)
            kept = set(vocabulary.decode(ids))
            tokens += len(ids) + UNKNOWN * sum(letter not in kept for letter in line)
            size += len(line.encode())
        return tokens / size

    return min(sample_languages(), key=cost)
