"""The verbs of the command line, as a Typer application."""

from __future__ import annotations

from typing import Annotated

import typer

from sharpbeam.cli.help import Verb
from sharpbeam.cli.verbs.compare import compare
from sharpbeam.cli.verbs.convert import convert
from sharpbeam.cli.verbs.evaluate import evaluate
from sharpbeam.cli.verbs.fit_preview import fit_preview
from sharpbeam.cli.verbs.fit_screen import fit_screen
from sharpbeam.cli.verbs.fit_shortlist import fit_shortlist
from sharpbeam.cli.verbs.generate import generate
from sharpbeam.cli.verbs.info import info
from sharpbeam.cli.verbs.profile import profile
from sharpbeam.cli.verbs.score import score
from sharpbeam.cli.verbs.screen_report import screen_report
from sharpbeam.cli.verbs.serve import serve
from sharpbeam.cli.verbs.trace import trace
from sharpbeam.cli.verbs.train import train
from sharpbeam.cli.verbs.translate import translate
from sharpbeam.cli.verbs.translate_document import translate_document
from sharpbeam.cli.verbs.tune import tune
from sharpbeam.version import program_version

GROUPS = {
    "Use a model": (translate, translate_document, generate, score),
    "Serve it": (serve,),
    "Get a model": (convert, train, info),
    "Make it faster": (tune, fit_preview, fit_screen, fit_shortlist),
    "Measure it": (evaluate, compare, profile, trace, screen_report),
}

app = typer.Typer(
    name="sharpbeam",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Fast decoding of translation models, and others, on a CPU. Begin with: `sharpbeam translate de-en`",
)
for title, verbs in GROUPS.items():
    for verb in verbs:
        app.command(cls=Verb, rich_help_panel=title)(verb)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"sharpbeam {program_version()}")
        raise typer.Exit


@app.callback()
def _before_verbs(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that need no verb."""
