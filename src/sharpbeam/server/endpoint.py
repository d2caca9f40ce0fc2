"""Help for endpoints: fields and keys of a request, and work that ends when its client leaves."""

from __future__ import annotations

import re
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

from fastapi import Request

from sharpbeam.errors import InputError
from sharpbeam.server.bodies import read_fields
from sharpbeam.server.deadline import Watch
from sharpbeam.server.keys import Keys, header_key
from sharpbeam.server.rates import Rates
from sharpbeam.server.refusals import Refused, bad_request
from sharpbeam.server.service import Service
from sharpbeam.text.glossary import Glossary

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
            self.admit(request, fields.get("api_key"))
        return fields

    def admit_by_header(self, request: Request) -> bool:
        """Admit a request before its body is read; false where only the body can have the key."""
        if self.keys.required and not header_key(request.headers):
            self._take(client_of(request), 0)
            return False
        self.admit(request)
        return True

    def admit(self, request: Request, key: object = None) -> None:
        """Raise Refused unless the client has a key, where one is needed, and capacity left in this minute.

        `key` is that of the body, which counts where the headers have none.
        """
        self._take(self.name(request, key) or client_of(request))

    def name(self, request: Request, key: object = None) -> str:
        """The name of the client's key, "" where none is needed; raises Refused. A wrong key is counted too."""
        try:
            name = self.keys.check(header_key(request.headers) or key)
        except Refused:
            self._take(client_of(request))
            raise
        note(request, key=name)
        return name

    def _take(self, client: str, count: int = 1) -> None:
        if seconds := self._rates.take(client, count):
            raise Refused(429, f"Slowdown: {self.service.options.requests_per_minute} requests per minute", seconds)

    async def answer(self, request: Request, work: Coroutine[Any, Any, T], seconds: float = 0.0) -> T:
        """The result of `work`, which is cancelled when the client leaves or the time is over; raises Refused."""
        seconds = seconds or self.service.options.timeout
        with Watch(seconds, request.receive) as watch:
            return await work
        if watch.left:
            raise Refused(499, "the client left")
        raise Refused(503, f"no answer within {seconds:g} seconds", seconds)


def client_of(request: Request) -> str:
    """The address of a client."""
    return request.client.host if request.client else ""


def note(request: Request, **facts: Any) -> None:
    """Add facts to the line that is logged for a request. Never text, never a key."""
    request.scope.setdefault("sharpbeam.log", {}).update(facts)


def text_field(fields: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """A field that is a text; raises Refused where it is missing or something else."""
    value = fields.get(name)
    if value is None or value == "":
        value = default
    if value is None:
        raise bad_request(f"Invalid request: missing {name} parameter")
    if not isinstance(value, str):
        raise bad_request(f"Invalid request: {name} parameter is not a text")
    return value


def number_field(fields: Mapping[str, Any], name: str, default: int) -> int:
    """A field that is a whole number, or text that says one; raises Refused."""
    value = fields.get(name)
    if value is None or value == "":
        return default
    if isinstance(value, str) and re.fullmatch("-?[0-9]{1,9}", value):
        return int(value)
    if type(value) is not int:
        raise bad_request(f"Invalid request: {name} parameter is not a number")
    return value


def texts_field(fields: Mapping[str, Any], name: str) -> list[str]:
    """A field that is a text or a list of texts; raises Refused."""
    value = fields.get(name)
    if value is None or value == []:
        raise bad_request(f"Invalid request: missing {name} parameter")
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise bad_request(f"Invalid request: {name} parameter is not a text, or a list of texts")
    return texts


def glossary_field(fields: Mapping[str, Any], name: str, most: int) -> Glossary | None:
    """A field that is an object of at most `most` terms with their translations; raises Refused."""
    terms = fields.get(name) or {}
    if not isinstance(terms, Mapping):
        raise bad_request(f"Invalid request: {name} parameter is not an object of terms and their translations")
    if len(terms) > most:
        raise bad_request(f"Invalid request: {name} has {len(terms)} terms; at most {most}")
    try:
        return Glossary.of(terms)
    except InputError as error:
        raise bad_request(f"Invalid request: {error}") from None


def flag_field(fields: Mapping[str, Any], name: str) -> bool:
    """A field that is true or false, "1" or "true" in a form; anything else is false."""
    return fields.get(name) in (True, "true", "1", "True")


def text_schema(description: str, **more: Any) -> dict[str, Any]:
    """The schema of a field that is a text."""
    return {"type": "string", "description": description, **more}


SOURCE = text_schema("code of the language of the text, as /languages lists it", example="de")
TARGET = text_schema("code of the language to translate into, as /languages lists it", example="en")
KEY = text_schema("a key of the server, where it needs one; a header may have it too")


def document(summary: str, properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    """The OpenAPI description of an endpoint that takes JSON and forms."""
    schema = {"schema": {"type": "object", "properties": dict(properties), "required": required}}
    kinds = ("application/json", "application/x-www-form-urlencoded")
    return {"summary": summary, "requestBody": {"required": True, "content": dict.fromkeys(kinds, schema)}}
