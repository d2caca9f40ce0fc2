"""Flags of verbs: those in a verb's signature, and one for each field of the options that it takes.

Both are an `option` of `options.schema`, so that default, bounds, choices and help stand once, at the option.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from dataclasses import MISSING
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from sharpbeam.errors import OptionError, nearest
from sharpbeam.options.schema import checked, listed, option

# The types of a value, each with a word for it, and what it must be.
_KINDS = {int: ("N", "a whole number"), float: ("X", "a number"), Path: ("FILE", ""), bool: ("", ""), str: ("TEXT", "")}


def argument(text: str, metavar: str = "", default: Any = MISSING) -> Any:
    """An argument in the signature of a verb: a value without the name of a flag."""
    return option(default, text, metavar=metavar)


class Flag:
    """A flag or an argument of a verb: an option with its type, and its place in the help."""

    def __init__(self, name: str, hint: Any, field: Any, panel: str = "Options") -> None:
        self.name, self.hint, self.panel, self.facts, self.default = name, hint, panel, field.metadata, field.default
        types_of_values = _types(hint)
        self.kind: Any = next((kind for kind in _KINDS if kind in types_of_values), str)
        self.many = bool({list, tuple} & types_of_values)  # may be repeated
        self.is_argument, self.required = panel == "Arguments", self.default is MISSING
        plain, on = name.rstrip("_").replace("_", "-"), self.kind is bool and self.default is True
        names = [f"--no-{plain}"] if on else [f"--{plain}"]
        names += [f"--no-{plain}"] * (self.kind is bool and self.default is None) + [self.facts["short"]]
        self.spellings = tuple(filter(None, names))
        self.help: str = (on and self.facts["off"]) or self.facts["help"]
        choices = "|".join(listed(hint, self.facts))
        word = plain.upper() if self.is_argument else (choices if len(choices) <= 16 else "CHOICE")
        self.metavar: str = self.facts["metavar"] or word or _KINDS[self.kind][0]

    def parsed(self, text: str) -> Any:
        """The value that `text` stands for; raises OptionError."""
        name = self.name.rstrip("_")
        try:
            value = self.kind(text)
        except ValueError:
            raise OptionError(f"{name} is {text!r}; it must be {_KINDS[self.kind][1]}.") from None
        hint = self.hint if listed(self.hint, self.facts) else self.kind
        return value if self.kind is Path else checked(hint, value, name, self.facts)


def _types(hint: Any) -> set[Any]:
    """The types in an annotation, such as Path and list in `list[Path] | None`."""
    if get_origin(hint) in (Union, types.UnionType, list, tuple):
        return {get_origin(hint)}.union(*map(_types, get_args(hint)))
    return {hint}


def parse(flags: Sequence[Flag], words: Sequence[str], verb: str) -> dict[str, Any]:
    """The values that a command line gives, by the names of the flags and arguments; raises OptionError."""
    named = {name: one for one in flags if not one.is_argument for name in one.spellings}
    values: dict[str, Any] = {}
    rest, queue = list[str](), list(words)
    while queue:
        word = queue.pop(0)
        if word == "--":
            rest, queue = rest + queue, []
        elif word == "-" or not word.startswith("-"):
            rest.append(word)
        else:
            name, equals, value = word.partition("=") if word[1] == "-" else (word[:2], word[2:], word[2:])
            if name not in named:
                raise wrong_use(_unknown(name, flags), verb)
            one = named[name]
            if one.kind is bool:
                if equals:
                    raise wrong_use(f"Option '{name}' takes no value", verb)
                values[one.name] = not name.startswith("--no-")
                continue
            if not equals:
                if not queue or queue[0] in named:
                    got = f", not the option '{queue[0]}'" if queue else ""
                    raise wrong_use(f"Option '{name}' needs a value{got}", verb)
                value = queue.pop(0)
            values[one.name] = [*values.get(one.name, []), one.parsed(value)] if one.many else one.parsed(value)
    _place(flags, rest, values, verb)
    return values


def _place(flags: Sequence[Flag], words: list[str], values: dict[str, Any], verb: str) -> None:
    """Take the arguments among `words`; raises OptionError for one too many, and for what is missing."""
    for one in flags:
        if one.is_argument and words:
            count = len(words) if one.many else 1
            parsed = [one.parsed(word) for word in words[:count]]
            values[one.name], words = parsed if one.many else parsed[0], words[count:]
        if one.required and one.name not in values:
            name = one.metavar if one.is_argument else one.spellings[0]
            raise wrong_use(f"{name} is missing: {one.help.rstrip('.')}", verb)
    if words:
        raise wrong_use(f"There is an argument too many: {words[0]!r}", verb)


def _unknown(name: str, flags: Sequence[Flag]) -> str:
    """The message for a flag that there is not: other programs have names of their own."""
    plain = name.lstrip("-").replace("-", "_")
    for one in flags:
        if plain in one.facts["other_names"]:
            return f"No such option: {name}; here it is called {one.spellings[0]}"
    spellings = [spelling for one in flags if not one.is_argument for spelling in one.spellings]
    return f"No such option: {name}.{nearest(name, spellings)}"


def wrong_use(message: str, path: str) -> OptionError:
    """The error for a command line of `path`, a verb or the program, that is not as its help says."""
    end = "" if message.endswith((".", "?")) else "."
    return OptionError(f"{message}{end} See '{path} --help'.")
