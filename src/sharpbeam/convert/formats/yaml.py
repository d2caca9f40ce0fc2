"""Marian's YAML files: options by name, and vocabularies, which have a line `token: id` for each token.

Options are read by PyYAML, with its loader that makes nothing but texts; the one in C crashes on deep nesting.
Vocabularies are read line by line: words are plain or in quotes as in YAML 1.2 (section 7.3); anything else is refused.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from sharpbeam.errors import InputError, ModelError
from sharpbeam.text.lines import read_lines, read_whole

_MOST_OPTIONS = 1 << 16  # bytes
_SPACE = " \t"  # no other space separates in YAML; those beyond ASCII are part of a word
_NOT_PLAIN = frozenset("\"',[]{}#&*!|>%@`")  # first characters that no plain word has
_SINGLE = re.compile(r"'(?:[^']|'')*'")
_BREAKS = {0x85: r"\N", 0x2028: r"\L", 0x2029: r"\P"}  # characters that break lines for PyYAML, and not in YAML 1.2


class _Loader(yaml.BaseLoader):
    """PyYAML's loader of texts, without its refusal of control characters, which real vocabularies hold."""

    def check_printable(self, data: Any) -> None:
        """Allow all characters."""


def read_words(path: Path) -> list[str]:
    """The words of a file of lines `word: id`, by id.

    Raises ModelError with the line for a line of another kind, and if there is no word or an id is missing;
    InputError if the file cannot be read or is not UTF-8.
    """
    words: dict[int, str] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip(_SPACE):
            continue
        word, _, token = line.rpartition(":")
        if not re.fullmatch(r"\s*[0-9]{1,9}\s*", token, re.ASCII) or int(token) in words:
            raise ModelError(f"{path}, line {number}: it must be a word, a colon and an id of its own.")
        try:
            words[int(token)] = _scalar(word.strip(_SPACE))
        except ValueError as error:
            raise ModelError(f"{path}, line {number}: {error}; mend the line.") from error
    if not words or max(words) >= len(words):
        raise ModelError(f"{path} has {len(words)} words; a vocabulary has some, with ids from 0 and none left out.")
    return [words[i] for i in range(len(words))]


def read_options(path: Path, raw: bytes | None = None) -> dict[str, Any]:
    """The options in a YAML file of Marian by name: str, int, bool, and lists of these; deeper values are left out.

    `raw` are its bytes if they are part of another file. Raises ModelError if the YAML is
    damaged, too long or holds no options, and InputError if the file cannot be read.
    """
    try:
        data = read_whole(path) if raw is None else raw.rstrip(b"\0")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    if len(data) > _MOST_OPTIONS:
        raise ModelError(f"{path}: its options have {len(data)} bytes; at most {_MOST_OPTIONS} are read.")
    try:
        options = yaml.load(data.decode("utf-8", "replace"), Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ModelError(f"{path}: its options are not YAML ({' '.join(str(error).split())[:200]}).") from error
    if not isinstance(options, dict):
        raise ModelError(f"{path} holds no options; they are lines `name: value`.")
    return {name: _typed(value) for name, value in options.items() if isinstance(name, str) and not _is_deep(value)}


def _is_deep(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and not all(isinstance(item, str) for item in value))


def _typed(value: Any) -> Any:
    """The int or bool that a text of YAML stands for; other texts as they are, and lists item by item."""
    if isinstance(value, list):
        return [_typed(item) for item in value]
    if value in ("true", "false"):
        return value == "true"
    return int(value) if re.fullmatch(r"-?[0-9]{1,18}", value) else value


def _scalar(scalar: str) -> str:
    """The value of a scalar, plain or in quotes; ValueError if it is none."""
    if scalar[:1] not in _NOT_PLAIN:
        return scalar
    if _SINGLE.fullmatch(scalar):
        return scalar[1:-1].replace("''", "'")
    try:
        node = yaml.compose(scalar.translate(_BREAKS), _Loader) if scalar[0] == '"' else None
    except yaml.YAMLError as error:
        raise ValueError(f"{scalar!r:.40} is no text in quotes ({' '.join(str(error).split())[:200]})") from error
    if not isinstance(node, yaml.ScalarNode):
        raise ValueError(f"{scalar!r:.40} begins as no plain word does, and is not in quotes from end to end")
    try:
        return str(node.value).encode("utf-16-le", "surrogatepass").decode("utf-16-le")  # JSON has pairs of surrogates
    except UnicodeDecodeError as error:
        raise ValueError(f"{scalar!r:.40} names half of a pair of surrogates, which is no character") from error
