"""The verbs of the command line, as a Typer application."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Annotated

import typer

from sharpbeam.cli.help import Program, Verb

GROUPS = {  # the files of `verbs`, each with a function of its name
    "Use a model": ("translate", "generate", "score"),
    "Serve it": ("serve",),
    "Get a model": ("models", "convert", "train", "info"),
    "Make it faster": ("tune", "fit"),
    "Measure it": ("evaluate", "profile"),
}

app = typer.Typer(
    name="sharpbeam",
    cls=Program,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Fast decoding of translation models, and others, on a CPU. Begin with: `sharpbeam translate de-en`",
)
for title, names in GROUPS.items():
    for name in names:
        verb = getattr(import_module(f"sharpbeam.cli.verbs.{name}"), name)
        if isinstance(verb, typer.Typer):
            app.add_typer(verb, rich_help_panel=title)
        else:
            app.command(cls=Verb, rich_help_panel=title)(verb)


def _print_version(show: bool) -> None:
    if show:
        from sharpbeam.version import program_version

        print(f"sharpbeam {program_version()}")
        raise typer.Exit


@app.callback()
def _before_verbs(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Fetch nothing: models in the cache alone.")] = False,
) -> None:
    """Options that stand before the verb."""
    if offline:
        os.environ["SHARPBEAM_OFFLINE"] = "1"
