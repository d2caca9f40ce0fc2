"""The help of a verb, and of the program: 80 columns, a panel for each group of options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sharpbeam.cli.flags import Flag


def print_help(usage: str, text: str, panels: Mapping[str, Sequence[RenderableType]]) -> None:
    """Print a line of usage, a text in Markdown, and panels by their titles."""
    from rich.console import Console, Group
    from rich.markdown import Markdown
    from rich.panel import Panel

    console = Console()
    console.print(f"Usage: {usage}\n", highlight=False, markup=False)
    console.print(Markdown(text))
    console.print()
    for title, rows in panels.items():
        console.print(Panel(Group(*rows), title=title, title_align="left", border_style="dim"))


def flag_panels(flags: Sequence[Flag]) -> dict[str, list[RenderableType]]:
    """The entries of flags by their panels."""
    panels: dict[str, list[RenderableType]] = {}
    for flag in flags:
        panels.setdefault(flag.panel, []).extend(_entry(flag))
    return panels


def verb_table(texts: Mapping[str, str]) -> RenderableType:
    """A table of verbs, each with the first paragraph of its text."""
    from rich.markdown import Markdown
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, text in texts.items():
        table.add_row(f"[bold cyan]{name}[/]", Markdown(text.partition("\n\n")[0]))
    return table


def _entry(flag: Flag) -> Iterator[RenderableType]:
    """The name of a flag or an argument, its text, and a line on each of its choices."""
    from rich.padding import Padding
    from rich.text import Text

    from sharpbeam.options.decode import choice_summaries

    named = flag.metavar if flag.is_argument else f"{', '.join(flag.spellings)} {flag.metavar}".rstrip()
    value = flag.default
    default = "" if value in (None, MISSING, "", ()) or flag.kind is bool else f" [default: {value}]"
    yield Text(named, style="bold cyan")
    yield Padding(Text(flag.help + default), (0, 0, 0, 4))
    for name, summary in choice_summaries(flag.name).items():
        yield Padding(Text(f"{name}: {summary}", style="dim"), (0, 0, 0, 6))
