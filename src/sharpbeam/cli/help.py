"""The help of a verb: what it does, examples, and a panel for each group of options that fits into 80 columns."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import RenderableType


class Verb(typer.core.TyperCommand):
    """A command with our help, each name on a line of its own."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help without advanced options."""
        print_help(ctx, every=False)


def print_help(context: Any, every: bool) -> None:
    """Print the help of a verb; `every` adds the options that are left out otherwise."""
    from rich.console import Console, Group
    from rich.markdown import Markdown
    from rich.panel import Panel

    panels: dict[str, list[RenderableType]] = {}
    for parameter in context.command.params:
        if every or not getattr(parameter, "hidden", False):
            is_option = isinstance(parameter, typer.core.TyperOption)
            panel = parameter.rich_help_panel or ("Options" if is_option else "Arguments")
            panels.setdefault(panel, []).extend(_entry(parameter) if is_option else _argument(parameter))
    console = Console()
    console.print(context.command.get_usage(context), highlight=False, markup=False)
    console.print()
    console.print(Markdown(inspect.cleandoc(context.command.help)))
    console.print()
    for title, rows in panels.items():
        console.print(Panel(Group(*rows), title=title, title_align="left", border_style="dim"))


_VALUES = {"int": "N", "integer": "N", "float": "X", "str": "TEXT", "text": "TEXT"}


def _value_name(option: Any) -> str:
    """A word for the value of an option, by its type; older versions of Typer name that by Click's types."""
    annotation = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    kind = getattr(annotation, "__name__", None) or getattr(getattr(option, "type", None), "name", "")
    return _VALUES.get(kind.split()[0] if kind else "", "FILE")


def _entry(option: Any) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    given = "" if option.is_flag else f" {option.metavar or _value_name(option)}"
    default = f" [default: {option.default}]" if option.show_default and option.default else ""
    yield Text(", ".join((*option.opts, *option.secondary_opts)) + given, style="bold cyan")
    yield Padding(Text(f"{option.help}{default}"), (0, 0, 0, 4))


def _argument(argument: Any) -> Iterator[RenderableType]:
    from rich.padding import Padding
    from rich.text import Text

    yield Text(argument.metavar or argument.name.upper(), style="bold cyan")
    yield Padding(Text(argument.help or ""), (0, 0, 0, 4))


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted:
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
