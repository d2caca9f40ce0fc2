"""Connections: uvicorn's protocol, which lets slow clients stay for ever, with bounds of time and size."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sharpbeam.options.server import ServerOptions

MOST_HEAD = 64 * 1024  # bytes that may come without an end of a head, or a block of a body
BLOCK = 256  # bytes of a block; smaller ones take the time of large ones
MOST_PIPELINED = 256  # requests of a connection that wait for the answer to one before them
UPGRADE = re.compile(rb"\r\nupgrade[ \t]*:", re.IGNORECASE)
LINGER = 2.0  # seconds that the rest of a body may take whose request was answered before its end


class _Connection(HttpToolsProtocol):
    """A connection whose times are those of the options of its class."""

    options: ServerOptions
    _pending = 0  # bytes since a head, a block of a body, or a request was complete
    _in_head = True  # the next bytes belong to a head
    _timer: asyncio.TimerHandle | None = None
    _writing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._arm()

    def data_received(self, data: bytes) -> None:
        self._pending += len(data)
        if self._in_head and not data.startswith((b"\r", b"\n")):  # else its end may be among the first bytes
            head, end, rest = data.partition(b"\r\n\r\n")
            data = UPGRADE.sub(b"\r\nignored:", head) + end + rest
        super().data_received(data)
        if self._pending > MOST_HEAD:
            self.transport.abort()
        elif self._in_head and self._pending and self._timer is None and not self.transport.is_closing():
            self._arm()

    def on_headers_complete(self) -> None:
        self._disarm()
        self._pending, self._in_head = 0, False
        if len(self.pipeline) >= MOST_PIPELINED or self.parser.should_upgrade():  # its name was in two parts
            raise ValueError("too many requests at once, or an upgrade")  # which the parser answers with status 400
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if len(body) >= BLOCK:
            self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._pending, self._in_head = 0, True
        if self._timer is not None:
            self._arm()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._timer is not None:
            self._arm()
        if not self._in_head and self.cycle.response_complete:
            self._timer = self.loop.call_later(LINGER, self.transport.abort)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing = self.loop.call_later(self.options.body_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._writing is not None:
            self._writing.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)
        if self._writing is not None:
            self._writing.cancel()

    def _arm(self) -> None:
        self._disarm()
        self._timer = self.loop.call_later(self.options.header_timeout, self._late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
        else:  # the head of a next request waits until this one is answered
            self._arm()


def connection_type(options: ServerOptions) -> type[asyncio.Protocol]:
    """The protocol with the times of `options`."""
    return type("Connection", (_Connection,), {"options": options})
