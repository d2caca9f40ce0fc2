"""The options that methods take by name, in their docstrings: `help(Translator.translate)` lists them."""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from types import FunctionType
from typing import Any

from sharpbeam.options.decode import DecodeOptions, MachineOptions
from sharpbeam.options.schema import fields_of, type_hints

_TITLE = "Options by name, and more in DecodeOptions and MachineOptions:"


def document(kind: type[Any], constructor: Callable[..., None]) -> None:
    """Give `kind` a `constructor` that errors call by its name, and list the options in the help of its methods."""
    assert isinstance(constructor, FunctionType)
    name = f"{kind.__name__}.__init__"
    own = FunctionType(constructor.__code__, constructor.__globals__, name, constructor.__defaults__)
    own.__kwdefaults__, own.__annotations__ = constructor.__kwdefaults__, constructor.__annotations__
    own.__doc__, own.__module__, own.__qualname__ = constructor.__doc__, constructor.__module__, name
    kind.__init__ = own
    for method in vars(kind).values():
        if isinstance(method, FunctionType):
            _list_options(method)


def _list_options(method: FunctionType) -> None:
    """Add the usual options that `method` takes by name to its docstring, each with its default."""
    annotations = {method.__annotations__.get(name) for name in ("keywords", "options")}
    if method.__doc__ is None or not annotations & {"Unpack[DecodeKeywords]", "Unpack[ModelKeywords]"}:
        return
    groups: list[Any] = [MachineOptions] if "Unpack[ModelKeywords]" in annotations else []
    lines = [_TITLE]
    for group in [*groups, *type_hints(DecodeOptions).values()]:
        for name, field in fields_of(group).items():
            if not field.metadata["advanced"]:
                lines.append(f"    {name} = {field.default!r}: {field.metadata['help']}")
    method.__doc__ = "\n".join([cleandoc(method.__doc__), "", *lines])
