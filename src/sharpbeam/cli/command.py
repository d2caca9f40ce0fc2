"""Verbs of the command line, alone and in groups: what they take, and the help that they print."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args, get_type_hints

from sharpbeam.cli.flags import Flag, parse, wrong_use
from sharpbeam.errors import nearest
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.schema import Schema, fields_of, option, type_hints

HELP, HELP_ALL = ("-h", "--help"), "--help-all"


@dataclass(frozen=True)
class Verb:
    """A command: a function, and the flags that its signature stands for.

    A parameter that is annotated with an options dataclass gets one, built from the flags; its checks raise
    OptionError. `Annotated[..., ScheduleOptions, LanguageOptions]` gets a dict with the fields whose flags were set: a
    model may have defaults of its own; DecodeOptions stands for its groups. Fields named in `without`, and groups
    there, get no flag. Advanced ones are left out of --help, unless they are named in `shown`; --help-all shows them.
    """

    function: Callable[..., None]
    without: Collection[str | type[Schema]] = ()
    shown: Collection[str] = ()

    @property
    def text(self) -> str:
        """Its description, in Markdown."""
        return inspect.getdoc(self.function) or ""

    @cached_property
    def groups(self) -> Mapping[str, tuple[Any, Mapping[Any, list[str]]]]:
        """The parameters that stand for options: annotation, and dataclasses with their fields that are flags."""
        groups = {}
        for name, hint in get_type_hints(self.function, include_extras=True).items():
            named = [one for one in (hint, *get_args(hint)[1:]) if isinstance(one, type) and issubclass(one, Schema)]
            own: Any = type_hints(DecodeOptions).values() if DecodeOptions in named else named
            if named:
                without = self.without
                groups[name] = hint, {g: [f for f in fields_of(g) if f not in without] for g in own if g not in without}
        return groups

    @cached_property
    def flags(self) -> list[Flag]:
        """Its arguments and flags, in the order of the signature."""
        hints, flags = get_type_hints(self.function), list[Flag]()
        for name, parameter in inspect.signature(self.function).parameters.items():
            if name not in self.groups:
                panel = "Options" if parameter.kind is parameter.KEYWORD_ONLY else "Arguments"
                flags.append(Flag(name, hints[name], parameter.default, panel))
                continue
            for group, names in self.groups[name][1].items():  # OutputLayerOptions -> Output layer options
                panel = re.sub(r"(?<=[a-z])[A-Z]", lambda capital: f" {capital[0].lower()}", group.__name__)
                flags += [Flag(one, type_hints(group)[one], fields_of(group)[one], panel) for one in names]
        return flags

    def run(self, path: str, words: Sequence[str]) -> None:
        """Run the function for the `words` after `path`, or print the help."""
        if {*HELP, HELP_ALL} & {*words[: words.index("--") if "--" in words else None]}:
            self._print_help(path, HELP_ALL in words)
            return
        chosen = parse(self.flags, words, path)
        values = {one.name: one.default for one in self.flags if one.panel in ("Arguments", "Options")}
        for name, (hint, groups) in self.groups.items():
            own = {one: chosen.pop(one) for names in groups.values() for one in names if one in chosen}
            values[name] = hint(**own) if isinstance(hint, type) else own
        self.function(**values | chosen)

    def _print_help(self, path: str, every: bool) -> None:
        from sharpbeam.cli.help import flag_panels, print_help

        names = [one.metavar if one.required else f"[{one.metavar}]" for one in self.flags if one.is_argument]
        last = Flag("help_all", bool, option(False, "Show this help with all options."))
        shown = [one for one in (*self.flags, last) if every or one.name in self.shown or not one.facts["advanced"]]
        print_help(" ".join([path, "[OPTIONS]", *names]), self.text, flag_panels(shown))


def verb(
    *, without: Collection[str | type[Schema]] = (), shown: Collection[str] = ()
) -> Callable[[Callable[..., None]], Verb]:
    """Make a `Verb` of a function."""
    return lambda function: Verb(function, without, shown)


@dataclass(frozen=True)
class VerbGroup:
    """Verbs by name, in panels of its help."""

    text: str
    panels: Mapping[str, Collection[str]]
    find: Callable[[str], Verb | VerbGroup]
    flags: Sequence[Flag] = ()

    @classmethod
    def of(cls, text: str, *verbs: Verb) -> VerbGroup:
        """The group of these verbs, by the names of their functions."""
        named = {one.function.__name__.rstrip("_"): one for one in verbs}
        return cls(text, {"Commands": named}, named.__getitem__)

    @property
    def names(self) -> list[str]:
        """The names of its verbs."""
        return [name for names in self.panels.values() for name in names]

    def verbs(self) -> dict[str, Verb]:
        """All verbs by their names, those of a group in it with its own before."""
        verbs: dict[str, Verb] = {}
        for name in self.names:
            one = self.find(name)
            verbs |= {name: one} if isinstance(one, Verb) else {f"{name} {own}": v for own, v in one.verbs().items()}
        return verbs

    def run(self, path: str, words: Sequence[str]) -> None:
        """Run the verb that `words` begin with, or print the help."""
        if not words or words[0] in HELP:
            self._print_help(path)
            return
        name, *rest = words
        if name not in self.names:
            known = [*self.names, *(spelling for one in self.flags for spelling in one.spellings)]
            kind = "option" if name.startswith("-") else "command"
            raise wrong_use(f"No such {kind} {name!r}.{nearest(name, known)}", path)
        self.find(name).run(f"{path} {name}", rest)

    def _print_help(self, path: str) -> None:
        from sharpbeam.cli.help import flag_panels, print_help, verb_table

        panels = {title: [verb_table({n: self.find(n).text for n in names})] for title, names in self.panels.items()}
        print_help(f"{path} [OPTIONS] COMMAND [ARGS]...", self.text, flag_panels(self.flags) | panels)
