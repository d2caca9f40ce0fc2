"""JSON that others wrote: of a file, of a size that it may have, or of a line or an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sharpbeam.errors import ModelError, SharpbeamError
from sharpbeam.text.lines import read_whole

HALF = re.compile("[\ud800-\udfff]")  # of a pair of surrogates: JSON can name one, UTF-8 cannot hold it
FACTS, WORDS = 1 << 20, 1 << 28  # bytes that a file of facts or a vocabulary may have


def read_json(path: Path, most_bytes: int = FACTS) -> dict[str, Any]:
    """The object in `path`; raises ModelError if there is none."""
    return json_object(read_whole(path, ModelError, most_bytes), str(path), ModelError)


def read_any_json(path: Path, most_bytes: int = FACTS) -> Any:
    """The content of `path`; raises ModelError if it is no JSON."""
    return _json(read_whole(path, ModelError, most_bytes), str(path), ModelError)


def json_object(content: str | bytes, name: str, failure: type[SharpbeamError]) -> dict[str, Any]:
    """The object in `content`; raises `failure` if there is none, with the `name` of the content."""
    value = _json(content, name, failure)
    if not isinstance(value, dict):
        raise failure(f"{name} is not a JSON object but {type(value).__name__}.")
    return value


def check_words(path: Path, words: Iterable[str]) -> None:
    """Raise ModelError for a word that is no text."""
    try:
        "\n".join(words).encode()
    except UnicodeEncodeError as error:
        raise ModelError(f"{path} has a word with {error.object[error.start]!r}, which is no character.") from error


def _json(content: str | bytes, name: str, failure: type[SharpbeamError]) -> Any:
    try:
        return json.loads(content if isinstance(content, str) else content.decode())
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, a number of 5,000 digits, or too deep
        raise failure(f"{name} is not JSON: {error}.") from error
