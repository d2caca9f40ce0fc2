"""Options from plain tables (TOML, JSON, command line): unknown names and wrong types raise OptionError by name."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sharpbeam.errors import OptionError, nearest

T = TypeVar("T")


def option(default: Any, text: str) -> Any:
    """A dataclass field with a default and the one text that says what it is: in the code, in --help, in the docs."""
    return dataclasses.field(default=default, metadata={"help": text})


def build(options_type: type[T], table: Mapping[str, Any], where: str) -> T:
    """Make an options object from `table`; `where` names the table in errors."""
    fields, hints = fields_of(options_type), type_hints(options_type)  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in fields:
            raise OptionError(
                f"{where}: unknown option {name!r}.{nearest(name, fields)} Allowed are {', '.join(sorted(fields))}."
            )
        values[name] = _coerce(hints[name], value, f"{where}: {name}")
    for name in _required(options_type):  # type: ignore[arg-type]
        if name not in values:
            raise OptionError(f"{where}: option {name!r} is missing.")
    return options_type(**values)


# A call of a translator looks its options up: what follows takes longer to read than a short sentence to set up.


@cache
def fields_of(options_type: Any) -> Mapping[str, dataclasses.Field[Any]]:
    """The fields of an options type by name, in their order."""
    return {field.name: field for field in dataclasses.fields(options_type)}


@cache
def _required(options_type: Any) -> tuple[str, ...]:
    """The names of the fields without a default."""
    missing = dataclasses.MISSING
    fields = fields_of(options_type).items()
    return tuple(name for name, field in fields if field.default is missing and field.default_factory is missing)


@cache
def type_hints(options_type: Any) -> dict[str, Any]:
    """The annotated type of each field, which is a string in the code."""
    return get_type_hints(options_type)


def _coerce(hint: Any, value: Any, name: str) -> Any:
    """Return `value` as the annotated type, or raise; an int may stand for a float, a list for a tuple."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        inner = next(a for a in get_args(hint) if a is not type(None))
        return None if value is None else _coerce(inner, value, name)
    if origin is Literal:
        allowed = get_args(hint)
        require(value in allowed, name, value, f"one of {', '.join(map(str, allowed))}")
    elif origin is tuple:
        require(isinstance(value, (list, tuple)), name, value, "a list")
        value = tuple(_coerce(get_args(hint)[0], item, name) for item in value)
    elif origin is dict or dataclasses.is_dataclass(hint):
        require(isinstance(value, Mapping), name, value, "a table")
        value = dict(value) if origin is dict else build(hint, value, name)
    elif hint is float and type(value) is int:
        value = float(value)
    else:
        require(type(value) is hint, name, value, f"of type {hint.__name__}")
    return value


def require(condition: bool, name: str, value: Any, allowed: str) -> None:
    """Raise OptionError ("name is value; it must be allowed.") unless `condition` holds."""
    if not condition:
        raise OptionError(f"{name} is {value!r}; it must be {allowed}.")
