"""JSON files of models: of a size that such a file may have."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sharpbeam.errors import ModelError
from sharpbeam.text.lines import read_whole

FACTS, WORDS = 1 << 20, 1 << 28  # bytes that a file of facts or a vocabulary may have


def read_json(path: Path, most_bytes: int = FACTS) -> dict[str, Any]:
    """The object in `path`; raises ModelError if there is none."""
    value = read_any_json(path, most_bytes)
    if not isinstance(value, dict):
        raise ModelError(f"{path} must hold a JSON object.")
    return value


def check_words(path: Path, words: Iterable[str]) -> None:
    """Raise ModelError for a word that is no text: JSON can name half of a pair of surrogates, UTF-8 cannot hold it."""
    try:
        "\n".join(words).encode()
    except UnicodeEncodeError as error:
        raise ModelError(f"{path} has a word with {error.object[error.start]!r}, which is no character.") from error


def read_any_json(path: Path, most_bytes: int = FACTS) -> Any:
    """The content of `path`; raises ModelError if it is no JSON."""
    try:
        return json.loads(read_whole(path, ModelError, most_bytes).decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, a number of 5,000 digits, or too deep
        raise ModelError(f"{path} is not JSON: {error}.") from error
