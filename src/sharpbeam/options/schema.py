"""The schema of all options: type, default, bounds and help of an option are written once, where its field is.

A group of options is a frozen dataclass that inherits from `Schema` and declares its fields with `option`. Creating
one checks each field; rules between fields are its method `check`. The command line takes its flags, and docs and
help their text, from the same fields.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sharpbeam.errors import OptionError, nearest

T = TypeVar("T")
S = TypeVar("S", bound="Schema")
_KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}


def option(
    default: Any,
    text: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    choices: Callable[[], Iterable[str]] | None = None,
    off: str = "",
    advanced: bool = False,
    internal: tuple[str, ...] = (),
    other_names: tuple[str, ...] = (),
    replaced: Mapping[str, str] = types.MappingProxyType({}),
    short: str = "",
    metavar: str = "",
) -> Any:
    """A field of a `Schema` with its help text; a default of `dataclasses.MISSING` makes it required.

    `ge`, `gt`, `le` and `lt` bound numbers as in Pydantic: at least, above, at most, below. `off` says what the
    flag does that switches a default off. Choices are those of the Literal that annotates the field, or those that
    `choices` returns at the time, where they can become more. `internal` ones are for tests and benchmarks: no help
    and no error lists them. An advanced option is left out of the short help. `other_names` are those of other
    programs; they are not accepted, but an error that meets one tells the right name. `replaced` are choices of other
    programs, each with the choice that stands for it here, which the error for it names.
    `short` is a second name on the command line, such as -o, and `metavar` a word for the value.
    """
    bounds = {name: bound for name, bound in (("ge", ge), ("gt", gt), ("le", le), ("lt", lt)) if bound is not None}
    facts = {"help": text, "off": off, "bounds": bounds, "choices": choices, "advanced": advanced}
    names = {"internal": internal, "other_names": other_names, "replaced": replaced, "short": short, "metavar": metavar}
    return dataclasses.field(default=default, metadata=facts | names)


def advanced_option(default: Any, text: str, **facts: Any) -> Any:
    """An `option` that the short help leaves out."""
    return option(default, text, **facts, advanced=True)


class Schema:
    """Base of the options dataclasses: checks each field when one is created; raises OptionError."""

    table: ClassVar[str] = ""
    """Name of the table in a recipe that these options are in; errors put it before the option's name."""

    def __post_init__(self) -> None:
        group: Any = type(self)
        for name in fields_of(group):
            object.__setattr__(self, name, check_value(group, name, getattr(self, name), self._named(name)))
        self.check()

    def check(self) -> None:
        """Raise OptionError if the options do not fit together."""

    def require(self, condition: bool, name: str, allowed: str) -> None:
        """Raise OptionError ("name is value; it must be allowed.") for the field `name` unless `condition` holds."""
        require(condition, self._named(name), getattr(self, name), allowed)

    def _named(self, name: str) -> str:
        return f"{self.table}.{name}" if self.table else name


def check_value(options_type: Any, name: str, value: Any, named: str) -> Any:
    """`value` as the field `name` has it; raises OptionError where it is wrong whatever the other fields are."""
    field = fields_of(options_type)[name]
    return value if value is field.default else checked(type_hints(options_type)[name], value, named, field.metadata)


def build(options_type: Callable[..., T], table: Mapping[str, Any], where: str) -> T:
    """Make an options object, or another dataclass, from `table`; `where` names the table in errors.

    Raises OptionError for an unknown, missing or mistyped option.
    """
    fields, hints = fields_of(options_type), type_hints(options_type)
    for name in table:
        if name not in fields:
            raise unknown(name, (options_type,), f"{where}: ")
    for name, field in fields.items():
        if field.default is field.default_factory is dataclasses.MISSING and name not in table:
            raise OptionError(f"{where}: option {name!r} is missing.")
    return options_type(**{name: _typed(hints[name], value, f"{where}: {name}") for name, value in table.items()})


def changed(options: S, names: Mapping[str, Any], where: str) -> S:
    """`options` with the fields in `names` changed; raises OptionError as `build`."""
    group: Any = type(options)
    fields = {name: getattr(options, name) for name in fields_of(group)}
    result: S = build(group, fields | dict(names), where)
    return result


def unknown(name: str, options_types: Collection[Any], where: str = "") -> OptionError:
    """The error for a `name` that none of `options_types` has as a field, with the name that was meant."""
    fields = {field_name: field for one in options_types for field_name, field in fields_of(one).items()}
    for ours, field in fields.items():
        if name in field.metadata.get("other_names", ()):
            return OptionError(f"{where}unknown option {name!r}; here it is called {ours!r}.")
    meant = nearest(name, fields) or f" Allowed are {', '.join(sorted(fields))}."
    return OptionError(f"{where}unknown option {name!r}.{meant}")


@cache
def fields_of(options_type: Any) -> Mapping[str, dataclasses.Field[Any]]:
    """The fields of an options type by name, in their order."""
    return {field.name: field for field in dataclasses.fields(options_type)}


@cache
def type_hints(options_type: Any) -> dict[str, Any]:
    """The annotated type of each field, which is a string in the code."""
    hints = get_type_hints(options_type)
    return {name: hints[name] for name in fields_of(options_type)}


def checked(hint: Any, value: Any, name: str, metadata: Mapping[str, Any]) -> Any:
    """`value` as the annotated type, within its bounds and among its choices, or raise OptionError."""
    if not metadata:  # a group of options
        return _typed(hint, value, name)
    now = metadata["replaced"].get(value) if isinstance(value, str) else None
    require(now is None, name, value, f"{now}, which takes its place")
    if allowed := listed(hint, metadata):
        value = str(value).lower() if isinstance(value, bool) else value
        require(value in (*allowed, *metadata["internal"]), name, value, _either(allowed))
        return value
    value, bounds = _typed(hint, value, name), metadata["bounds"]
    if bounds and value is not None:
        inside = (  # written so that NaN is outside
            value >= bounds.get("ge", value),
            value <= bounds.get("le", value),
            "gt" not in bounds or value > bounds["gt"],
            "lt" not in bounds or value < bounds["lt"],
        )
        require(all(inside), name, value, bounds_text(bounds))
    return value


def listed(hint: Any, metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The choices of an option that help and errors list; none for one without choices."""
    if get_origin(hint) is Literal:
        return tuple(name for name in get_args(hint) if name not in metadata["internal"])
    return tuple(metadata["choices"]()) if metadata["choices"] else ()


def bounds_text(bounds: Mapping[str, float]) -> str:
    """The bounds in words: between 1 and 1024; 0 or more; above 0 and at most 1."""
    if bounds.keys() == {"ge", "le"}:
        return f"between {bounds['ge']} and {bounds['le']}"
    if bounds.keys() == {"ge"}:
        return f"{bounds['ge']} or more"
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    return " and ".join(f"{words[kind]} {bound}" for kind, bound in bounds.items())


def _typed(hint: Any, value: Any, name: str) -> Any:
    """`value` as the annotated type, or raise OptionError.

    An int may stand for a float, a list for a tuple, a table for a dataclass, and a bool for its name among choices.
    """
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        inner = next(a for a in get_args(hint) if a is not type(None))
        return None if value is None else _typed(inner, value, name)
    if origin is Literal:
        value = choice(name, str(value).lower() if isinstance(value, bool) else value, hint)
    elif origin is tuple:
        require(isinstance(value, (list, tuple)), name, value, "a list")
        value = tuple(_typed(get_args(hint)[0], item, name) for item in value)
    elif origin is dict:
        require(isinstance(value, Mapping), name, value, "a table")
        value = {key: _typed(get_args(hint)[1], item, name) for key, item in value.items()}
    elif dataclasses.is_dataclass(hint) and not isinstance(value, hint):  # type: ignore[arg-type]
        require(isinstance(value, Mapping), name, value, "a table")
        value = build(hint, value, name)  # type: ignore[arg-type]
    elif hint is not Any and not dataclasses.is_dataclass(hint):
        number = getattr(value, "item", None)  # of a NumPy scalar
        value = number() if callable(number) and not getattr(value, "shape", ()) else value
        whole = hint is float and type(value) is int and abs(value) < 2**1023  # beyond, it is no float
        value = float(value) if whole else value
        require(type(value) is hint, name, value, _KINDS.get(hint, f"of type {hint.__name__}"))
    return value


def choice(name: str, value: Any, literal: Any) -> Any:
    """`value`, which must be one of those of a Literal; raises OptionError."""
    allowed = get_args(literal)
    require(value in allowed, name, value, _either(allowed))
    return value


def _either(choices: tuple[str, ...]) -> str:
    """Choices in words: a, b or c."""
    return " or ".join(filter(None, (", ".join(choices[:-1]), choices[-1])))


def require(condition: bool, name: str, value: Any, allowed: str) -> None:
    """Raise OptionError ("name is value; it must be allowed.") unless `condition` holds."""
    if not condition:
        raise OptionError(f"{name} is {value!r:.200}; it must be {allowed}.")
