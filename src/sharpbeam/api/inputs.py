"""Checking the texts that people give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sharpbeam.errors import InputError


def check_texts(texts: Sequence[str], what: str) -> None:
    """Raise InputError unless `texts` is a sequence of strings that can be written as UTF-8."""
    if isinstance(texts, (str, bytes)):
        raise InputError(f"give a list of {what}s, not a single one: [{what}].")
    if isinstance(texts, Mapping) or not (hasattr(texts, "__len__") and hasattr(texts, "__getitem__")):
        raise InputError(f"the {what}s are a {type(texts).__name__}; give a list of them.")
    for index, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(f"{what} {index} is {text!r}; it must be a str.")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise InputError(f"{what} {index} holds half a character (a surrogate) at {error.start}.") from error
