"""Bodies of requests, JSON objects or forms, bounded in size and time; their fields, declared once; and of answers."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, Field, ValidationError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, ImmutableMultiDict, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive

from sharpbeam.errors import InputError
from sharpbeam.server.deadline import Deadline
from sharpbeam.server.refusals import Refused, bad_request
from sharpbeam.text.glossary import Glossary

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")
Texts = str | list[str]
Terms = dict[str, str | list[str]]
NOUNS = {str: "a text", int: "a number", bool: "true or false", Texts: "a text, or a list of texts"}
NOUNS[Terms] = "an object of terms and their translations"
MOST_TERMS = 1000  # of a glossary

FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
NOT_ASCII = re.compile(rb"[\x80-\xff]")
BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{1,70}")
HALF = "Invalid request: a text holds half a character (a surrogate)"


async def read_fields(request: Request, most: int, seconds: float) -> dict[str, Any]:
    """The fields of a body of at most `most` bytes that arrives within `seconds`; raises Refused.

    A field of a form that comes several times is a list. Those of a GET may be in its address, too.
    """
    query = request.query_params if request.method == "GET" else QueryParams()
    return _as_lists(query) | await _read_body(request, most, seconds)


async def _read_body(request: Request, most: int, seconds: float) -> dict[str, Any]:
    if (request.headers.get("content-type") or "").partition(";")[0].strip().lower() in FORMS:
        form = _as_lists(await read_form(request, most, seconds))
        every = (one for value in form.values() for one in (value if isinstance(value, list) else [value]))
        if any(isinstance(one, str) and "\ufffd" in one for one in every):  # what the parser makes of other bytes
            raise bad_request("Invalid form: the text is not UTF-8, or has U+FFFD")
        return form
    body = await _bounded(request, most, seconds, lambda receive: Request(request.scope, receive).body())
    if not body.strip():
        return {}
    try:
        text = body.decode("utf-8-sig")
        fields = json.loads(text)
        if "\\u" in text:
            json.dumps(fields, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise bad_request(HALF) from None
    except (UnicodeDecodeError, RecursionError):
        raise bad_request("Invalid JSON format: the body is not UTF-8, or too deep") from None
    except ValueError:
        raise bad_request("Invalid JSON format") from None
    if not isinstance(fields, dict):
        raise bad_request("Invalid JSON format")
    return fields


def _as_lists(form: ImmutableMultiDict[str, Any]) -> dict[str, Any]:
    lists = {name: form.getlist(name) for name in form}
    return {name: values if len(values) > 1 else values[0] for name, values in lists.items()}


async def read_form(request: Request, most: int, seconds: float) -> FormData:
    """The form of a request in UTF-8, with at most one file; bounds and errors as in `read_fields`."""
    scope = {**request.scope, "headers": _form_headers(request)}

    encoded = request.headers.get("content-type", "").lower().startswith("application/x-www-form-urlencoded")

    async def read(bounded: Receive) -> FormData:
        async def escaped() -> Message:  # letters as they are, as `curl -d` sends them
            message = await bounded()
            return {**message, "body": NOT_ASCII.sub(lambda byte: b"%%%02X" % byte[0][0], message.get("body", b""))}

        receive = escaped if encoded else bounded
        return await Request(scope, receive).form(max_files=1, max_fields=1000, max_part_size=most)

    try:
        return await _bounded(request, most, seconds, read)
    except HTTPException as error:
        raise bad_request(f"Invalid form: {error.detail}") from None
    except ValueError:  # of its parser, which older releases of starlette let through
        raise bad_request("Invalid form") from None


def _form_headers(request: Request) -> list[tuple[bytes, bytes]]:
    """The headers without the charset of a form: Python's decoder of "punycode" takes quadratic time."""
    kind, options = parse_options_header(request.headers.get("content-type"))
    if boundary := options.get(b"boundary"):
        if not BOUNDARY.fullmatch(boundary):
            raise bad_request("Invalid form: the boundary must be 1 to 70 letters, digits or signs of RFC 2046")
        kind += b'; boundary="' + boundary + b'"'
    return [(b"content-type", kind), *(item for item in request.scope["headers"] if item[0] != b"content-type")]


async def _bounded(request: Request, most: int, seconds: float, read: Callable[[Receive], Awaitable[T]]) -> T:
    """The result of `read`; raises Refused when more than `most` bytes come, or when they take longer."""
    budget = most

    async def counted() -> Message:
        nonlocal budget
        message = await request.receive()
        budget -= len(message.get("body", b""))
        if budget < 0:
            raise too_large
        return message

    too_large = Refused(413, f"the request is larger than {most} bytes")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > most:
        raise too_large
    try:
        with Deadline(seconds):
            return await read(counted)
    except ClientDisconnect:
        raise Refused(499, "the client left") from None
    raise Refused(408, "the body of the request did not arrive in time")


class RequestFields(BaseModel):
    """The fields of a request; names that a model lacks are ignored."""

    kinds: ClassVar[tuple[str, ...]] = ("application/json", FORMS[0])  # types of bodies that have them
    api_key: str = Field("", description="a key of the server, where it needs one; a header may have it too")

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """The fields by name, as the body has them; raises Refused. An empty one is a missing one, except texts."""
        values = {}
        for name, value in fields.items():
            field = cls.model_fields.get(name)
            if field is not None and value not in (None, []) and (value != "" or field.annotation == Texts):
                values[name] = value
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            fault = error.errors(include_url=False)[0]
        name = str(fault["loc"][0])
        if fault["type"] == "missing":
            raise bad_request(f"Invalid request: missing {name} parameter")
        if fault["type"] == "literal_error":
            raise bad_request(f"{str(fault['input'])[:40]} {name} is not supported")
        noun = NOUNS[cls.model_fields[name].annotation]
        raise bad_request(f"Invalid request: {name} parameter is not {noun}")

    @classmethod
    def description(cls, summary: str) -> dict[str, Any]:
        """The entry in OpenAPI of an endpoint that takes these fields."""
        content = {kind: {"schema": cls.model_json_schema()} for kind in cls.kinds}
        return {"summary": summary, "requestBody": {"required": True, "content": content}}


def texts_of(value: Texts) -> list[str]:
    """A field of texts as a list."""
    return [value] if isinstance(value, str) else value


def glossary_of(terms: Terms, most: int = MOST_TERMS) -> Glossary | None:
    """The glossary of a field with at most `most` terms; None without terms. Raises Refused."""
    if len(terms) > most:
        raise bad_request(f"Invalid request: glossary has {len(terms)} terms; at most {most}")
    try:
        return Glossary.of(terms)
    except InputError as error:
        raise bad_request(f"Invalid request: {error}") from None
