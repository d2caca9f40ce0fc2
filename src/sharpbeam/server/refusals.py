"""Refusals: requests that get no translation, with the status and the reason for the client; and faults of ours."""

from __future__ import annotations

import json
import logging
import traceback
from typing import Any

log = logging.getLogger("sharpbeam.server")


class Refused(Exception):  # noqa: N818 (not a fault of the program)
    """A request is not served. The message goes to the client, so it holds neither keys nor paths of the machine."""

    def __init__(self, status: int, message: str, retry_after: float | None = None) -> None:
        """`retry_after` is the number of seconds after which it is worth another try."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = {} if retry_after is None else {"Retry-After": str(max(1, round(retry_after)))}


def bad_request(message: str) -> Refused:
    """The request itself is wrong."""
    return Refused(400, message)


class Fault(Exception):  # noqa: N818 (the fault has the name)
    """A fault of ours in a worker."""

    def __init__(self, places: dict[str, Any]) -> None:
        """`places` as of the error there."""
        super().__init__()
        self.places = places


def places(error: BaseException) -> dict[str, Any]:
    """Kind and places of an error, without its message, which may hold text of a client."""
    if isinstance(error, Fault):
        return error.places
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    return {"error": type(error).__name__, "at": [f"{frame.name}:{frame.lineno}" for frame in frames]}


def log_fault(error: BaseException) -> None:
    """A line in the log of an error that is a fault of ours."""
    log.error("%s", json.dumps({"event": "fault", **places(error)}))
