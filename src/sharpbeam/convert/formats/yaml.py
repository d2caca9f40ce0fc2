"""What is read of Marian's YAML files: lists `word: id`, one word a line, and the names in a list of options.

Words are plain or in quotes, as YAML 1.2 has them (sections 5.7 and 7.3); whatever else YAML can say is refused.
"""

from __future__ import annotations

import re
from pathlib import Path

from sharpbeam.errors import ModelError
from sharpbeam.text.lines import read_lines

_SPACE = " \t"  # no other space separates in YAML; those beyond ASCII are part of a word
_NOT_PLAIN = frozenset("\"',[]{}#&*!|>%@`")  # what a plain word cannot begin with
_ESCAPES = dict(zip('0abt\tnvfre "/\\N_LP', '\0\a\b\t\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029', strict=True))
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)
_DOUBLE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SINGLE = re.compile(r"'(?:[^']|'')*'")


def read_words(path: Path) -> list[str]:
    """The words of a file of lines `word: id`, by id.

    Raises ModelError with the line for one of another kind, and where there is no word or an id is left out;
    InputError where the file cannot be read or is not UTF-8.
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


def read_names(path: Path, key: str) -> list[str]:
    """The names that stand one a line, each behind a dash, under the line `key:`; none where there is no such list.

    Raises ModelError with the line for a name that YAML does not have, and InputError as `read_words`.
    """
    names: list[str] = []
    inside = False
    for number, line in enumerate(read_lines(path), 1):
        if not inside:
            inside = line.rstrip(_SPACE) == f"{key}:"
        elif item := re.fullmatch(r"[ \t]*-[ \t]+(.*)", line):
            try:
                names.append(_scalar(item[1].strip(_SPACE)))
            except ValueError as error:
                raise ModelError(f"{path}, line {number}: {error}; mend the line.") from error
        else:
            break
    return names


def _scalar(written: str) -> str:
    """What a scalar says, plain or in quotes; ValueError where it is none."""
    if written[:1] not in _NOT_PLAIN:
        return written
    if _SINGLE.fullmatch(written):
        return written[1:-1].replace("''", "'")
    if not _DOUBLE.fullmatch(written):
        raise ValueError(f"{written!r:.40} begins as no plain word does, and is not in quotes from end to end")
    if "\\" not in written:
        return written[1:-1]
    text = _ESCAPE.sub(_meant, written[1:-1])
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")  # JSON has pairs of surrogates
    except UnicodeDecodeError as error:
        raise ValueError(f"{written!r:.40} names half of a pair of surrogates, which is no character") from error


def _meant(escape: re.Match[str]) -> str:
    """The character of one escape; ValueError for one that YAML does not have."""
    said = escape[1]
    if len(said) == 1 and said in _ESCAPES:
        return _ESCAPES[said]
    code = int(said[1:], 16) if len(said) > 1 else -1
    if not 0 <= code <= 0x10FFFF:
        raise ValueError(f"{escape[0]!r} is no escape of YAML's double quotes")
    return chr(code)
