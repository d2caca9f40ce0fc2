"""Refusals: requests that get no translation, with the status and the reason that the client is told."""

from __future__ import annotations


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
