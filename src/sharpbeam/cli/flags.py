"""Command-line flags from the options dataclasses: default, bounds and help are written once, at the option."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
import types
from collections.abc import Callable, Collection
from typing import Any, Union, get_args, get_origin, get_type_hints

import typer

from sharpbeam.cli.help import HELP_ALL
from sharpbeam.errors import OptionError
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.schema import Schema, fields_of, listed, type_hints


def with_options(
    *, without: Collection[str | type[Schema]] = (), shown: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Expand each parameter of a command that stands for options into one flag for each of their fields.

    A parameter that is annotated with an options dataclass gets one, built from the flags; its checks raise
    OptionError; DecodeOptions stands for the fields of its groups. `Annotated[..., ScheduleOptions, LanguageOptions]`
    gets a dict with the fields whose flags were set: a model may have defaults of its own. Fields named in `without`,
    and groups there, get no flag. Advanced ones are left out of --help, unless they are named in `shown`; --help-all
    shows them.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        groups: dict[str, list[Any]] = {}
        parameters = [inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)]
        for name, parameter in inspect.signature(command).parameters.items():
            groups[name] = [one for one in _groups(hints[name]) if one not in without]
            if groups[name]:
                parameters += [_flag(one, field, shown) for one in groups[name] for field in _fields(one, without)]
            else:
                parameters.append(parameter.replace(annotation=hints[name]))
        parameters.append(HELP_ALL)

        @functools.wraps(command)
        def run(context: typer.Context, **values: Any) -> None:
            del values[HELP_ALL.name]
            for name, own in groups.items():
                if own:
                    chosen = {
                        field.name: _parsed(type_hints(one)[field.name], values.pop(field.name), field.name)
                        for one in own
                        for field in _fields(one, without)
                    }
                    chosen = {flag: value for flag, value in chosen.items() if _was_set(context, flag)}
                    values[name] = _made(hints[name], chosen)
            command(**values)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _groups(hint: Any) -> list[Any]:
    """The options dataclasses that a parameter stands for."""
    schemas = [one for one in (hint, *get_args(hint)[1:]) if isinstance(one, type) and issubclass(one, Schema)]
    return [group for one in schemas for group in (type_hints(one).values() if one is DecodeOptions else [one])]


def _made(hint: Any, chosen: dict[str, Any]) -> Any:
    """The value of a parameter that stands for options."""
    if hint is DecodeOptions:
        return DecodeOptions.of(**chosen)
    return hint(**chosen) if isinstance(hint, type) else chosen


def _was_set(context: typer.Context, flag: str) -> bool:
    source = context.get_parameter_source(flag)
    return source is not None and source.name != "DEFAULT"


def _fields(options_type: Any, without: Collection[str | type[Schema]]) -> list[dataclasses.Field[Any]]:
    return [field for name, field in fields_of(options_type).items() if name not in without]


def _flag(options_type: Any, field: dataclasses.Field[Any], shown: Collection[str]) -> inspect.Parameter:
    """The Typer option of one field. Its value is parsed and checked by us, for one wording everywhere."""
    hint = type_hints(options_type)[field.name]
    kind, offered = _kind(hint), listed(hint, field.metadata)
    spelling = "--" + field.name.replace("_", "-")
    if kind is bool and field.default:  # one name for each flag: --help is read on 80 columns
        spelling = " /--no-" + spelling[2:]
    choices = "|".join(offered)
    names = {int: "N", float: "X", str: "TEXT", bool: ""}
    default = typer.Option(
        field.default if kind is bool or field.default is None else str(field.default),
        spelling,
        help=(kind is bool and field.default and field.metadata["off"]) or field.metadata["help"],
        metavar=(choices if len(choices) <= 16 else "CHOICE") if choices else names[kind],
        rich_help_panel=_title(options_type.__name__),
        hidden=field.metadata["advanced"] and field.name not in shown,
        show_default=kind is not bool and field.default not in (None, ""),
    )
    annotation = bool if kind is bool else str | None if field.default is None else str
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _title(name: str) -> str:
    """OutputLayerOptions -> Output layer options."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda capital: f" {capital[0].lower()}", name)


def _kind(hint: Any) -> Any:
    """The type of a value that is not None."""
    if get_origin(hint) in (Union, types.UnionType):
        return next(one for one in get_args(hint) if one is not type(None))
    return hint


def _parsed(hint: Any, value: Any, name: str) -> Any:
    """The text of a flag, as a number if the option is one; raises OptionError."""
    for kind, allowed in ((int, "a whole number"), (float, "a number")):
        if _kind(hint) is kind and value is not None:
            try:
                return kind(value)
            except ValueError:
                raise OptionError(f"{name} is {value!r}; it must be {allowed}.") from None
    return value
