"""Options from plain tables (TOML, JSON, command line): unknown names and wrong types raise OptionError by name."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from quickbeam.errors import OptionError, nearest

T = TypeVar("T")


def option(default: Any, text: str) -> Any:
    """A dataclass field with a default and the one text that says what it is: in the code, in --help, in the docs."""
    return dataclasses.field(default=default, metadata={"help": text})


def build(options_type: type[T], table: Mapping[str, Any], where: str) -> T:
    """Make an options object from `table`; `where` names the table in errors."""
    fields = {field.name: field for field in dataclasses.fields(options_type)}  # type: ignore[arg-type]
    hints = get_type_hints(options_type)
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in fields:
            raise OptionError(
                f"{where}: unknown option {name!r}.{nearest(name, fields)} Allowed are {', '.join(sorted(fields))}."
            )
        values[name] = _coerce(hints[name], value, f"{where}: {name}")
    for name, field in fields.items():
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if required and name not in values:
            raise OptionError(f"{where}: option {name!r} is missing.")
    return options_type(**values)


def _coerce(hint: Any, value: Any, name: str) -> Any:
    """Return `value` as the annotated type, or raise; an int may stand for a float, a list for a tuple."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in get_args(hint):
            return None
        return _coerce(next(a for a in get_args(hint) if a is not type(None)), value, name)
    if origin is Literal:
        if value not in get_args(hint):
            raise OptionError(f"{name} is {value!r}; it must be one of {', '.join(map(str, get_args(hint)))}.")
        return value
    if origin is tuple:
        if not isinstance(value, (list, tuple)):
            raise OptionError(f"{name} is {value!r}; it must be a list.")
        return tuple(_coerce(get_args(hint)[0], item, name) for item in value)
    if hint is float and type(value) is int:
        return float(value)
    if origin is dict or hint is dict:
        if not isinstance(value, Mapping):
            raise OptionError(f"{name} is {value!r}; it must be a table.")
        return dict(value)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(value, Mapping):
            raise OptionError(f"{name} is {value!r}; it must be a table.")
        return build(hint, value, name)
    if type(value) is not hint:
        raise OptionError(f"{name} is {value!r}; it must be of type {hint.__name__}.")
    return value


def require(condition: bool, name: str, value: Any, allowed: str) -> None:
    """Raise OptionError ("name is value; it must be allowed.") unless `condition` holds."""
    if not condition:
        raise OptionError(f"{name} is {value!r}; it must be {allowed}.")
