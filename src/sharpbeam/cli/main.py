"""`sharpbeam`: run one command line; how a failure reaches the user: one clear line on stderr and an exit status."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
import time
from _thread import start_new_thread
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from sharpbeam.errors import OptionError, SharpbeamError

FAILED, WRONG_USE, INTERRUPTED, CLOSED_PIPE = 1, 2, 130, 141  # the last two as shells count SIGINT and SIGPIPE
PATIENCE = 1.0  # seconds after a Ctrl-C in which another one is taken for the same


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (default: sys.argv) and return its exit status."""
    status, message = 0, ""
    try:
        _open_streams()
        with _interruptible(), _logged():
            from sharpbeam.cli.app import run

            run(sys.argv[1:] if arguments is None else list(arguments))
            sys.stdout.flush()
    except BrokenPipeError:  # the reader has enough, as in `| head`
        status = CLOSED_PIPE
    except (Exception, KeyboardInterrupt) as error:
        status, message = _explain(error)
    if message:
        print("sharpbeam: " + _one_line(message), file=sys.stderr)
    if status:
        _silence_stdout()
    return status


def program() -> NoReturn:
    """Entry point of the `sharpbeam` command; a Ctrl-C skips Python's shutdown, which would wait for our threads."""
    status = main()
    if status == INTERRUPTED:
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def _explain(error: BaseException) -> tuple[int, str]:
    """Exit status and message of an error that a user may cause; any other is a bug, and is raised again."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, "interrupted."
    if isinstance(error, SharpbeamError):
        return (WRONG_USE if isinstance(error, OptionError) else FAILED), str(error)
    if isinstance(error, OSError):
        return FAILED, f"{error.filename or 'cannot write the result'}: {error.strerror or error}."
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):  # of PyTorch, a RuntimeError
        return FAILED, "out of memory; try smaller --batch-tokens, --beam-size or --threads, or a smaller recipe."
    raise error


def _one_line(message: str) -> str:
    """`message` without line ends, and without control characters that a terminal would obey."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(message.split()))


def _interrupt_soon() -> None:
    """A Ctrl-C for when what was interrupted has returned."""
    time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let one Ctrl-C stop the work and its threads in order, and one that comes later end the process at once.

    Python would end with running threads, and so abort, if a second one came while the first is dealt with; `timeout`
    and terminals send two.
    """
    first, dropped = 0.0, False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal first, dropped
        now = time.monotonic()
        if frame and frame.f_globals.get("__name__") == "_weakrefset":  # a thread's end, where errors were seen dropped
            dropped = True
            start_new_thread(_interrupt_soon, ())
        elif not first:
            first = now
            raise KeyboardInterrupt
        elif now - first > PATIENCE:
            os.write(2, b"sharpbeam: interrupted twice; stopped at once.\n")
            os._exit(INTERRUPTED)

    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:  # ignored, or handled elsewhere
        yield
        return
    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        # After one the process is at its end, where Python would take a handler away, but not this one.
        signal.signal(signal.SIGINT, signal.SIG_IGN if first or dropped else signal.default_int_handler)


class _Lines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Print a log record as one line on stderr."""
        print("sharpbeam: " + _one_line(record.getMessage()), file=sys.stderr, flush=True)


@contextmanager
def _logged() -> Iterator[None]:
    """Print log records of the package on stderr."""
    logger, handler = logging.getLogger("sharpbeam"), _Lines()
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.level, logger.propagate = before


def _open_streams() -> None:
    """Replace standard streams that the caller closed (`>&-`), and write UTF-8 in any locale.

    Python has None for a closed stream. Reading or writing the replacement fails with a plain OSError, as it should,
    and our files do not get the numbers 0 to 2; output to stderr is lost.
    """
    for name, access, mode in (("stdin", os.O_WRONLY, "r"), ("stdout", os.O_RDONLY, "w"), ("stderr", os.O_WRONLY, "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode))
    if isinstance(sys.stdout, io.TextIOWrapper):  # names of files keep the bytes that are not UTF-8
        sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")


def _silence_stdout() -> None:
    """Drop what stdout's buffer could not write (a full disk, a closed pipe): Python would try again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
