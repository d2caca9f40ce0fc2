"""`sharpbeam`: the verbs, and how a failure reaches the person: one clear line on stderr and an exit status."""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

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
from sharpbeam.cli.verbs.trace import trace
from sharpbeam.cli.verbs.train import train
from sharpbeam.cli.verbs.translate import translate
from sharpbeam.cli.verbs.tune import tune
from sharpbeam.errors import OptionError, SharpbeamError
from sharpbeam.version import program_version

FAILED, WRONG_USE, INTERRUPTED, CLOSED_PIPE = 1, 2, 130, 141  # the last two as shells count SIGINT and SIGPIPE

app = typer.Typer(
    name="sharpbeam",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Fast decoding of large-vocabulary sequence models. Begin with: `sharpbeam translate de-en`",
)


def _guarded(verb: Callable[..., None]) -> Callable[..., None]:
    """`verb`, with exit statuses for what Typer would answer in its own way, which changes with its version."""

    @functools.wraps(verb)
    def run(**values: Any) -> None:
        try:
            verb(**values)
            sys.stdout.flush()
        except BrokenPipeError as error:  # the reader has enough, as in `| head`
            raise typer.Exit(CLOSED_PIPE) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error

    return run


for _verb in (
    translate,
    generate,
    score,
    evaluate,
    info,
    convert,
    trace,
    profile,
    tune,
    train,
    fit_preview,
    fit_screen,
    fit_shortlist,
    screen_report,
):
    app.command()(_guarded(_verb))


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"sharpbeam {program_version()}")
        raise typer.Exit


@app.callback()
def _before_verbs(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_say_version, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that need no verb."""


# Typer brings its own copy of Click or imports it, by its version; its errors have this base in both.
_UsageError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: sys.argv) and return its exit status."""
    message = ""
    _replace_closed_streams()
    _write_utf8()
    try:
        status = int(app(args=arguments, prog_name="sharpbeam", standalone_mode=False) or 0)
    except Exception as error:
        status, message = _explain(error)
    if status == INTERRUPTED:
        message = "interrupted."
    if message:
        print("sharpbeam: " + " ".join(message.split()), file=sys.stderr)
    if status:
        _silence_stdout()
    return status


def _explain(error: Exception) -> tuple[int, str]:
    """Exit status and message of what a person may cause; anything else is a mistake of ours and is raised again."""
    if isinstance(error, SharpbeamError):
        return (WRONG_USE if isinstance(error, OptionError) else FAILED), str(error)
    if isinstance(error, _UsageError):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "sharpbeam"
        message = _in_our_words(error.format_message(), error)  # type: ignore[attr-defined]
        end = "" if message.endswith((".", "?")) else "."
        return WRONG_USE, message and f"{message}{end} See '{command} --help'."
    if isinstance(error, OSError):
        return FAILED, f"{error.filename or 'cannot write the result'}: {error.strerror or error}."
    if isinstance(error, MemoryError):
        return FAILED, "out of memory; try smaller --batch-tokens, --beam-size or --threads."
    raise error


def _in_our_words(message: str, error: Exception) -> str:
    """`message` with the value got, and what is allowed as other errors say it, where newer versions of Typer say what
    Pydantic does."""
    found: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if not found:
        return message
    fault, bounds = found[0], found[0].get("ctx", {})
    allowed = {
        "int_parsing": "a whole number",
        "float_parsing": "a number",
        "greater_than_equal": f"{bounds.get('ge')} or more",
    }.get(fault["type"])
    if allowed is None:
        return f"{message} (got {fault['input']!r})"
    return message.replace(fault["msg"], f"it is {fault['input']!r}; it must be {allowed}")


def _replace_closed_streams() -> None:
    """Put something in the place of standard streams that the caller closed (`>&-`), which Python has as None.

    To read or write them fails, as it should, with a plain OSError; what goes to stderr is lost. Their numbers 0 to 2
    are taken again, so that no file of ours gets one.
    """
    for name, access, mode in (("stdin", os.O_WRONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode))


def _write_utf8() -> None:
    """Results are UTF-8 whatever the locale, as text that is read is; names of files keep the bytes that are not."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


def _silence_stdout() -> None:
    """Drop what stdout's buffer could not write (a full disk, a closed pipe): Python would try again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
