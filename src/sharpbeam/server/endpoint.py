"""The gate of all endpoints: keys and bodies of requests, and work that ends when its client leaves."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

from sharpbeam.server.bodies import read_fields
from sharpbeam.server.deadline import Deadline
from sharpbeam.server.keys import Keys, header_key
from sharpbeam.server.refusals import Refused
from sharpbeam.server.service import Query, Service, TranslatedText

T = TypeVar("T")


class Gate:
    """Lets requests in: their key, their body."""

    def __init__(self, service: Service, keys: Keys) -> None:
        self.service, self.keys = service, keys

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
            return False
        self.admit(request)
        return True

    def admit(self, request: Request, key: object = None) -> None:
        """Raise Refused unless the client has a key, where one is needed; `key` counts where the headers have none."""
        note(request, key=self.keys.check(header_key(request.headers) or key))

    def client(self, request: Request) -> str:
        """The client of a request that was admitted: the name of its key, or its address."""
        address = request.client.host if request.client else ""
        return request.scope["sharpbeam.log"]["key"] or address

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


def note(request: Request, **facts: Any) -> None:
    """Add facts to the line that is logged for a request. Never text, never a key."""
    request.scope.setdefault("sharpbeam.log", {}).update(facts)
