"""A translator with another model or output layer in the place of one of its own."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from sharpbeam import Translator


@contextlib.contextmanager
def with_parts(translator: Translator, **parts: Any) -> Iterator[None]:
    """The translator with `parts` (fields of its loaded model), and with sessions of its own that have them."""
    before = translator.loaded, translator._sessions
    translator.loaded, translator._sessions = dataclasses.replace(translator.loaded, **parts), {}
    try:
        yield
    finally:
        translator.loaded, translator._sessions = before
