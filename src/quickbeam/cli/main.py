"""`quickbeam`: the verbs, and how a failure reaches the person: one clear line on stderr and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from quickbeam.cli.evaluate import evaluate
from quickbeam.cli.info import info
from quickbeam.cli.score import score
from quickbeam.cli.train import train
from quickbeam.cli.translate import translate
from quickbeam.errors import OptionError, QuickbeamError

FAILED, WRONG_USE, INTERRUPTED, CLOSED_PIPE = 1, 2, 130, 141  # the last two as shells count SIGINT and SIGPIPE

app = typer.Typer(
    name="quickbeam",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Fast decoding of large-vocabulary sequence models. Begin with: `quickbeam translate de-en`",
)
for verb in (translate, score, evaluate, info, train):
    app.command()(verb)

# Typer brings its own copy of Click or imports it, by its version; its errors have this base in both.
_UsageError: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: sys.argv) and return its exit status."""
    try:
        status = int(app(args=arguments, prog_name="quickbeam", standalone_mode=False) or 0)
        if status == INTERRUPTED:  # what newer versions of Typer make of Ctrl-C
            raise KeyboardInterrupt
        sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough, as in `| head`
        _silence_stdout()
        return CLOSED_PIPE
    except (Exception, KeyboardInterrupt) as error:
        status, message = _explain(error)
        if message:
            print("quickbeam: " + " ".join(message.split()), file=sys.stderr)
        if isinstance(error, OSError):
            _silence_stdout()
    return status


def _explain(error: BaseException) -> tuple[int, str]:
    """Exit status and message of what a person may cause; anything else is a mistake of ours and is raised again."""
    if isinstance(error, QuickbeamError):
        return (WRONG_USE if isinstance(error, OptionError) else FAILED), str(error)
    if isinstance(error, _UsageError):
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "quickbeam"
        message = error.format_message()  # type: ignore[attr-defined]
        return WRONG_USE, message and f"{message} See '{command} --help'."
    if isinstance(error, OSError):
        return FAILED, f"{error.filename or 'cannot write the result'}: {error.strerror or error}."
    if isinstance(error, MemoryError):
        return FAILED, "out of memory; try smaller --batch-tokens, --beam-size or --threads."
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED, "interrupted."
    raise error


def _silence_stdout() -> None:
    """Send what is left in stdout's buffer nowhere: it cannot be written, and Python would try again at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
