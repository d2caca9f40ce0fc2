"""Errors that users may see. Each says the name, the value got, what is allowed, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager


class SharpbeamError(Exception):
    """Base of every error that Sharpbeam raises on purpose; the command line prints it without a traceback."""


class OptionError(SharpbeamError, ValueError):
    """An option has a value that is not allowed, or a name that does not exist."""


class InputError(SharpbeamError, ValueError):
    """Text or a file that was given cannot be read as what it should be."""


class OutputError(SharpbeamError):
    """A result cannot be written where it should go."""


class ModelError(SharpbeamError):
    """A model folder is missing, incomplete, of another version, or does not fit together."""


class RequestCancelledError(SharpbeamError, CancelledError):
    """A request of a session was cancelled, or the session was closed before it was done."""


@contextmanager
def failing(failure: type[SharpbeamError], action: str) -> Iterator[None]:
    """Raise `failure`, which says that the `action` cannot be done, for an OSError in this block."""
    try:
        yield
    except OSError as error:
        raise failure(f"cannot {action}: {error.strerror or error}.") from error


@contextmanager
def computing(failure: type[SharpbeamError], action: str) -> Iterator[None]:
    """Raise `failure` for numbers that an `action` in this block cannot take: a ValueError or ArithmeticError."""
    try:
        yield
    except SharpbeamError:
        raise
    except (ValueError, ArithmeticError) as error:
        raise failure(f"cannot {action}: {error}.") from error


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return the sentence ' Did you mean ...?' for the closest of `allowed`, or nothing when none is close."""
    import difflib  # slow to import, and for errors alone

    close = difflib.get_close_matches(str(name), list(allowed), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


@contextmanager
def needs_extra(task: str, extra: str) -> Iterator[None]:
    """Imports in this block may miss a package: then raise SharpbeamError that names the extra to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sharpbeam"):
            raise
        raise SharpbeamError(
            f"{task} needs the package {error.name}, which is not installed; run: pip install 'sharpbeam[{extra}]'"
        ) from error
