"""Command-line flags from the options dataclasses: a default and its help are written once, beside the option."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Collection
from typing import Any, Literal, get_args, get_origin, get_type_hints

import typer


def with_options(*, without: Collection[str] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn each parameter of a command that is annotated with an options dataclass into one flag for each field.

    The command is called with the built dataclass, so its checks raise OptionError. Fields named in `without`
    get no flag and keep their defaults.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        grouped: dict[str, list[str]] = {}
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command).parameters.items():
            if dataclasses.is_dataclass(hints[name]):
                fields = [field for field in dataclasses.fields(hints[name]) if field.name not in without]
                flags = [_flag(hints[name], field) for field in fields]
                grouped[name] = [flag.name for flag in flags]
                parameters += flags
            else:
                parameters.append(parameter.replace(annotation=hints[name]))

        @functools.wraps(command)
        def run(**values: Any) -> None:
            for name, flags in grouped.items():
                values[name] = hints[name](**{flag: values.pop(flag) for flag in flags})
            command(**values)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _flag(options_type: Any, field: dataclasses.Field[Any]) -> inspect.Parameter:
    """The Typer option of one dataclass field. Choices are checked by the dataclass, for one wording everywhere."""
    hint = get_type_hints(options_type)[field.name]
    metavar = None
    if get_origin(hint) is Literal:
        metavar, hint = "|".join(get_args(hint)), str
    elif field.metadata["choices"]:
        metavar = "|".join(field.metadata["choices"]())
    spelling = "--" + field.name.replace("_", "-")
    if hint is bool and field.default:  # what is off anyway has no second name: --help is read on 80 columns
        spelling += "/--no-" + spelling[2:]
    default = typer.Option(
        field.default,
        spelling,
        help=field.metadata["help"],
        metavar=metavar,
        rich_help_panel=_title(options_type.__name__),
    )
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _title(name: str) -> str:
    """SearchOptions -> 'Search options', the heading of its flags in --help."""
    return name.removesuffix("Options") + " options"
