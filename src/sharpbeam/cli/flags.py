"""Flags of verbs: those in a verb's signature, and one for each field of the options that it takes.

Both are an `option` of `options.schema`, so that default, bounds, choices and help stand once, at the option.
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Union, get_args, get_origin

from sharpbeam.errors import OptionError, nearest
from sharpbeam.options.schema import checked, listed, option

_KINDS = {int: ("N", "a whole number"), float: ("X", "a number"), Path: ("FILE", ""), str: ("TEXT", ""), bool: ("", "")}
_REPLACED = {  # flags of older versions: what to do now
    "--shard": "cut the input with split -l N, translate its parts, and join the results",
    "--processes": "start several servers, each with its --port, and a proxy (docs/guides/serving.md)",
}


def flag(default: Any, text: str, *, short: str = "", metavar: str = "", **facts: Any) -> Any:
    """A flag in the signature of a verb, as `option` has it; `metavar` is a word for its value.

    Without a default (`dataclasses.MISSING`) it must be given.
    """
    metadata = option(default, text, **facts).metadata
    return dataclasses.field(default=default, metadata={**metadata, "short": short, "metavar": metavar})


def argument(text: str, metavar: str = "", default: Any = MISSING) -> Any:
    """An argument in the signature of a verb: a value without the name of a flag."""
    return flag(default, text, metavar=metavar)


@dataclass(frozen=True)
class Flag:
    """A flag or an argument of a verb."""

    name: str  # of the parameter, or the field
    hint: Any
    facts: Any  # the field: its default, and the metadata of an option
    panel: str  # of the help

    @cached_property
    def kind(self) -> Any:
        """The type of one value: int, float, bool, Path or str."""
        return next((kind for kind in _KINDS if kind in _types(self.hint)), str)

    @property
    def many(self) -> bool:
        """Whether it may be repeated."""
        return bool({list, tuple} & _types(self.hint))

    @property
    def is_argument(self) -> bool:
        """Whether it stands without a name."""
        return self.panel == "Arguments"

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.facts.default is MISSING

    @property
    def advanced(self) -> bool:
        """Whether the short help leaves it out."""
        return bool(self.facts.metadata["advanced"])

    @property
    def spelling(self) -> str:
        """The name without the dashes."""
        return self.name.rstrip("_").replace("_", "-")

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names as the help lists them; of one that is on the name that switches it off."""
        own, off = f"--{self.spelling}", f"--no-{self.spelling}"
        names = {True: (off,), None: (own, off)}.get(self.facts.default, (own,)) if self.kind is bool else (own,)
        return (*names, *filter(None, [self.facts.metadata.get("short")]))

    @property
    def help(self) -> str:
        """Its text; of one that is on, what switching it off does."""
        facts: Any = self.facts
        return str((facts.default is True and facts.metadata["off"]) or facts.metadata["help"])

    @property
    def metavar(self) -> str:
        """A word for the value."""
        choices = "|".join(listed(self.hint, self.facts.metadata))
        named: str = self.facts.metadata.get("metavar", "")
        if self.is_argument:
            return named or self.spelling.upper()
        return named or (choices if len(choices) <= 16 else "CHOICE") or _KINDS[self.kind][0]

    def parsed(self, text: str) -> Any:
        """The value that `text` stands for; raises OptionError."""
        name, metadata = self.name.rstrip("_"), self.facts.metadata
        try:
            value = self.kind(text)
        except ValueError:
            raise OptionError(f"{name} is {text!r}; it must be {_KINDS[self.kind][1]}.") from None
        is_literal = listed(self.hint, metadata)
        return value if self.kind is Path else checked(self.hint if is_literal else self.kind, value, name, metadata)


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
    """The message for a flag that there is not: older versions and other programs have names of their own."""
    plain = name.lstrip("-").replace("-", "_")
    if name in _REPLACED:
        return f"No such option: {name}; {_REPLACED[name]}"
    for one in flags:
        if plain in one.facts.metadata["other_names"]:
            return f"No such option: {name}; here it is called --{one.spelling}"
    spellings = [spelling for one in flags if not one.is_argument for spelling in one.spellings]
    return f"No such option: {name}.{nearest(name, spellings)}"


def wrong_use(message: str, path: str) -> OptionError:
    """The error for a command line of `path`, a verb or the program, that is not as its help says."""
    end = "" if message.endswith((".", "?")) else "."
    return OptionError(f"{message}{end} See '{path} --help'.")


def title(name: str) -> str:
    """OutputLayerOptions -> Output layer options."""
    return re.sub(r"(?<=[a-z])[A-Z]", lambda capital: f" {capital[0].lower()}", name)
