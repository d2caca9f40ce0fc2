"""The gate of all endpoints: keys, rates and bodies of requests, and work that ends when its client leaves."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from sharpbeam.server.bodies import read_fields
from sharpbeam.server.deadline import Deadline
from sharpbeam.server.keys import Keys, header_key
from sharpbeam.server.rates import Rates
from sharpbeam.server.refusals import Refused
from sharpbeam.server.service import Query, Service, TranslatedText

T = TypeVar("T")


class Gate:
    """Lets requests in: their key, their rate, their body."""

    def __init__(self, service: Service, keys: Keys, rates: Rates) -> None:
        self.service, self.keys, self._rates = service, keys, rates

    async def fields(self, request: Request) -> dict[str, Any]:
        """The fields of the body of a request that may come in; raises Refused."""
        options = self.service.options
        admitted = self.admit_by_header(request)
        fields = await read_fields(request, options.body_limit, options.body_timeout)
        if not admitted:
            self.admit(request, fields.get("api_key") or fields.get("auth_key"))  # DeepL's name for it
        return fields

    def admit_by_header(self, request: Request) -> bool:
        """Admit a request before its body is read; false where only the body can have the key."""
        if self.keys.required and not header_key(request.headers):
            self._count(client_of(request), 0)
            return False
        self.admit(request)
        return True

    def client(self, request: Request) -> str:
        """The client of a request that was admitted: the name of its key, or its address."""
        return request.scope["sharpbeam.log"]["key"] or client_of(request)

    def admit(self, request: Request, key: object = None) -> None:
        """Raise Refused unless the client has a key, where one is needed, and capacity left in this minute.

        `key` is that of the body, which counts where the headers have none.
        """
        self._count(self.name(request, key) or client_of(request))

    def name(self, request: Request, key: object = None) -> str:
        """The name of the client's key, "" where none is needed; raises Refused. A wrong key is counted too."""
        try:
            name = self.keys.check(header_key(request.headers) or key)
        except Refused:
            self._count(client_of(request))
            raise
        note(request, key=name)
        return name

    def _count(self, client: str, count: int = 1) -> None:
        if seconds := self._rates.count(client, count):
            raise Refused(429, f"Slowdown: {self.service.options.requests_per_minute} requests per minute", seconds)

    async def translate(self, request: Request, query: Query) -> list[TranslatedText]:
        """The translations of the texts of a request; raises Refused."""
        note(request, texts=len(query.texts), characters=sum(map(len, query.texts)))
        return await self.answer(request, self.service.translate(query))

    async def answer(self, request: Request, work: Coroutine[Any, Any, T], seconds: float = 0.0) -> T:
        """The result of `work`, which is cancelled when the client leaves or the time is over; raises Refused."""
        seconds = seconds or self.service.options.timeout
        with Deadline(seconds, request.receive) as deadline:
            return await work
        if deadline.absent:
            raise Refused(499, "the client left")
        raise Refused(503, f"no answer within {seconds:g} seconds", seconds)


def client_of(request: Request) -> str:
    """The address of a client."""
    return request.client.host if request.client else ""


def note(request: Request, **facts: Any) -> None:
    """Add facts to the line that is logged for a request. Never text, never a key."""
    request.scope.setdefault("sharpbeam.log", {}).update(facts)
