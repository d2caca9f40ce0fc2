"""The facts of another program's files, each checked when it is read by its name."""

from __future__ import annotations

import reprlib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar

from sharpbeam.errors import ModelError

T = TypeVar("T")


class Facts:
    """A JSON or YAML object from `path`, with its program's defaults for those that are left out."""

    def __init__(self, path: Path, values: Mapping[str, Any], defaults: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self._values = {**(defaults or {}), **values}

    def get(self, name: str) -> Any:
        """The value of any type; None if it is left out."""
        return self._values.get(name)

    def integer(self, name: str) -> int:
        """A whole number of 0 or more."""
        value = self.get(name)
        return int(self._checked(name, type(value) is int and value >= 0, "a whole number of 0 or more"))

    def number(self, name: str) -> float:
        """A number."""
        return float(self._checked(name, type(self.get(name)) in (int, float), "a number"))

    def flag(self, name: str) -> bool:
        """True or false; left out is false."""
        return bool(self._checked(name, type(self.get(name)) in (bool, type(None)), "true or false"))

    def text(self, name: str) -> str:
        """A text; left out is empty."""
        return self._checked(name, isinstance(self.get(name), (str, type(None))), "a text") or ""

    def objects(self, name: str) -> list[Facts]:
        """The facts of each object of a list; none if it is left out."""
        items = self.get(name) or []
        is_list = isinstance(items, list) and all(isinstance(item, dict) for item in items)
        self._checked(name, is_list, "a list of objects")
        return [Facts(self.path, item) for item in items]

    def choice(self, name: str, meanings: Mapping[str, T]) -> T:
        """The meaning of one of several names."""
        allowed = f"one of {', '.join(map(repr, meanings))}; the model has a feature that we lack"
        value = self.get(name)
        return meanings[self._checked(name, isinstance(value, str) and value in meanings, allowed)]

    def require(self, name: str, allowed: Collection[Any]) -> None:
        """Raise ModelError if a fact is there and is another one: then the model has a feature that we lack."""
        value = self.get(name)
        is_allowed = value is None or any(type(value) is type(other) and value == other for other in allowed)
        self._checked(name, is_allowed, f"{' or '.join(map(repr, allowed))}; Sharpbeam lacks others")

    def refusal(self, name: str, allowed: str) -> ModelError:
        """The error for a value that is not `allowed`."""
        return ModelError(f"{self.path}: {name} is {reprlib.repr(self.get(name))}; it must be {allowed}.")

    def _checked(self, name: str, is_allowed: bool, allowed: str) -> Any:
        """The value; raises ModelError unless it is allowed."""
        if not is_allowed:
            raise self.refusal(name, allowed)
        return self.get(name)
