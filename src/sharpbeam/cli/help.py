"""The program and its verbs: help on 80 columns with a panel for each group of options, and what replaced old verbs."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType


REPLACED = {  # verbs of older versions: what to write now
    "translate-document": "translate MODEL DOCUMENT --output FILE",
    "fit-preview": "fit preview MODEL",
    "fit-screen": "fit screen MODEL",
    "fit-shortlist": "fit shortlist MODEL",
    "fit-net": "fit shortlist MODEL --text FILE --fidelity 0.999",
    "report": "tune MODEL --text FILE",
    "compare": "tune MODEL --text FILE",
}


class Program(typer.core.TyperGroup):
    """The program; a verb of an older version is answered with its successor."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb that a command line begins with."""
        if args[0] in REPLACED and args[0] not in self.commands:
            ctx.fail(f"No such command '{args[0]}'; write: sharpbeam {REPLACED[args[0]]}.")
        return super().resolve_command(ctx, args)


class Verb(typer.core.TyperCommand):
    """A command with our help, each name on a line of its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the flags; a flag in the place of another one's value is refused."""
        options: list[Any] = [one for one in self.params if isinstance(one, typer.core.TyperOption)]
        takes_value = {
            name: not option.is_flag for option in options for name in (*option.opts, *option.secondary_opts)
        }
        for flag, value in itertools.pairwise(args):
            if flag == "--":
                break
            if takes_value.get(flag) and value in takes_value and not ctx.resilient_parsing:
                ctx.fail(f"Option '{flag}' needs a value, not the option '{value}'")
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help without advanced options."""
        print_help(ctx, every=False)


def print_help(context: Any, every: bool) -> None:
    """Print the help of a verb; `every` adds the hidden options that have a help."""
    from rich.console import Console, Group
    from rich.markdown import Markdown
    from rich.panel import Panel

    panels: dict[str, list[RenderableType]] = {}
    for parameter in context.command.params:
        if not getattr(parameter, "hidden", False) or (every and parameter.help):
            is_option = isinstance(parameter, typer.core.TyperOption)
            panel = parameter.rich_help_panel or ("Options" if is_option else "Arguments")
            panels.setdefault(panel, []).extend(_entry(parameter) if is_option else _argument(parameter))
    console = Console()
    console.print(_usage(context), highlight=False, markup=False)
    console.print()
    console.print(Markdown(inspect.cleandoc(context.command.help)))
    console.print()
    for title, rows in panels.items():
        console.print(Panel(Group(*rows), title=title, title_align="left", border_style="dim"))


def _usage(context: Any) -> str:
    """The line of a verb with its arguments, those that may be left out in brackets."""
    words = [context.command_path, "[OPTIONS]"]
    for parameter in context.command.params:
        if not isinstance(parameter, typer.core.TyperOption):
            word = parameter.metavar or parameter.name.upper()
            words.append(word if parameter.required else f"[{word}]")
    return "Usage: " + " ".join(words)


_VALUES = {"int": "N", "integer": "N", "float": "X", "str": "TEXT", "text": "TEXT"}


def value_name(option: Any) -> str:
    """A word for the value of an option, by its type; older versions of Typer name that by Click's types."""
    annotation = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    annotation = next(iter(get_args(annotation)), annotation)  # of list[int], int
    kind = getattr(annotation, "__name__", None) or getattr(getattr(option, "type", None), "name", "")
    return _VALUES.get(kind.split()[0] if kind else "", "FILE")


def _entry(option: Any) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    from sharpbeam.options.decode import choice_summaries

    value = "" if option.is_flag else f" {option.metavar or value_name(option)}"
    default = f" [default: {option.default}]" if option.show_default and option.default else ""
    yield Text(", ".join((*option.opts, *option.secondary_opts)) + value, style="bold cyan")
    yield Padding(Text(f"{option.help}{default}"), (0, 0, 0, 4))
    for name, summary in choice_summaries(option.name).items():
        yield Padding(Text(f"{name}: {summary}", style="dim"), (0, 0, 0, 6))


def _argument(argument: Any) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    yield Text(argument.metavar or argument.name.upper(), style="bold cyan")
    yield Padding(Text(argument.help or ""), (0, 0, 0, 4))


def _show_all(context: typer.Context, show: bool) -> None:
    if show:
        print_help(context, every=True)
        raise typer.Exit


HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show this help with all options.")
    ],
)
