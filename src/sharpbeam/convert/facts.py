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
        if type(value) is not int or value < 0:
            raise self.refusal(name, "a whole number of 0 or more")
        return value

    def number(self, name: str) -> float:
        """A number."""
        value = self.get(name)
        if type(value) not in (int, float):
            raise self.refusal(name, "a number")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false; left out is false."""
        value = self.get(name)
        if value is not None and type(value) is not bool:
            raise self.refusal(name, "true or false")
        return bool(value)

    def text(self, name: str) -> str:
        """A text; left out is empty."""
        value = self.get(name)
        if value is not None and not isinstance(value, str):
            raise self.refusal(name, "a text")
        return value or ""

    def objects(self, name: str) -> list[Facts]:
        """The facts of each object of a list; none if it is left out."""
        value = self.get(name)
        if value is not None and not (isinstance(value, list) and all(isinstance(item, dict) for item in value)):
            raise self.refusal(name, "a list of objects")
        return [Facts(self.path, item) for item in value or ()]

    def choice(self, name: str, meanings: Mapping[str, T]) -> T:
        """The meaning of one of several names."""
        value = self.get(name)
        if not isinstance(value, str) or value not in meanings:
            raise self.refusal(name, f"one of {', '.join(map(repr, meanings))}; the model has a feature that we lack")
        return meanings[value]

    def require(self, name: str, allowed: Collection[Any]) -> None:
        """Raise ModelError if a fact is there and is another one: then the model has a feature that we lack."""
        value = self.get(name)
        if value is not None and not any(type(value) is type(other) and value == other for other in allowed):
            choices = " or ".join(map(repr, allowed))
            raise self.refusal(name, f"{choices}; Sharpbeam lacks others")

    def refusal(self, name: str, allowed: str) -> ModelError:
        """The error for a value that is not `allowed`."""
        return ModelError(f"{self.path}: {name} is {reprlib.repr(self.get(name))}; it must be {allowed}.")
