"""Bodies of requests, JSON objects or forms, bounded in size and time; and of answers."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, ImmutableMultiDict, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive

from sharpbeam.server.deadline import Deadline
from sharpbeam.server.refusals import Refused, bad_request

T = TypeVar("T")
ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
FORMS = ("application/x-www-form-urlencoded", "multipart/form-data")
BOUNDARY = re.compile(rb"[0-9A-Za-z'()+_,./:=? -]{1,70}")
HALF = "Invalid request: a text holds half a character (a surrogate)"


class JsonAnswer(JSONResponse):
    """An answer in JSON, by one encoder for all of them."""

    def render(self, content: Any) -> bytes:
        """The body."""
        return ENCODER.encode(content).encode()


async def read_fields(request: Request, most: int, seconds: float) -> dict[str, Any]:
    """The fields of a body of at most `most` bytes that arrives within `seconds`; raises Refused.

    A field of a form that comes several times is a list. Those of a GET may be in its address, too.
    """
    query = request.query_params if request.method == "GET" else QueryParams()
    return _as_lists(query) | await _read_body(request, most, seconds)


async def _read_body(request: Request, most: int, seconds: float) -> dict[str, Any]:
    if (request.headers.get("content-type") or "").partition(";")[0].strip().lower() in FORMS:
        return _as_lists(await read_form(request, most, seconds))
    body = await _bounded(request, most, seconds, lambda receive: Request(request.scope, receive).body())
    if not body.strip():
        return {}
    try:
        text = body.decode("utf-8-sig")
        fields = json.loads(text)
        if "\\u" in text:
            ENCODER.encode(fields).encode()
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

    async def read(bounded: Receive) -> FormData:
        return await Request(scope, bounded).form(max_files=1, max_fields=1000, max_part_size=most)

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
