"""The boundary: the outermost layer, which counts, logs and answers what went wrong, and says nothing of the texts."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sharpbeam.server.metrics import ServerMetrics
from sharpbeam.server.refusals import Refused, log, log_fault

Answer = Callable[[Request], Awaitable[Response]]

SECURITY = [
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
     b"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]  # fmt: skip


class Boundary:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, metrics: ServerMetrics, cors_origin: str, direct: Mapping[str, Answer]) -> None:
        """`direct`: paths whose POST requests are answered here, since routing costs as much as a short sentence."""
        self._app, self._metrics, self._direct = app, metrics, direct
        self._headers = list(SECURITY)
        if cors_origin:
            self._headers += [
                (b"access-control-allow-origin", cors_origin.encode()),
                (b"access-control-allow-headers", b"Authorization, Content-Type, X-API-Key"),
                (b"access-control-allow-methods", b"DELETE, GET, POST"),
            ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 0
        if scope["method"] == "HEAD":  # uvicorn leaves the body of its answer out
            scope = {**scope, "method": "GET"}

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *self._headers]
            await send(message)

        try:
            if scope["method"] == "OPTIONS":
                await Response(status_code=204)(scope, receive, send_with_headers)
            elif (answer := self._direct.get(scope["path"])) is not None and scope["method"] == "POST":
                scope["app"] = self._app  # as routing does; without it, Starlette's errors in forms are others
                request = Request(scope, receive)
                try:
                    response = await answer(request)
                except Refused as error:
                    response = await refused(request, error)
                await response(scope, receive, send_with_headers)
            else:
                await self._app(scope, receive, send_with_headers)
        except asyncio.CancelledError:  # at the end of the server
            if not status:
                await JSONResponse({"error": "the server ends"}, 503)(scope, receive, send_with_headers)
        except Exception as error:
            if not isinstance(error, Refused):
                log_fault(error)
            if not status:
                await JSONResponse({"error": "internal error"}, 500)(scope, receive, send_with_headers)
        finally:
            self._finish(scope, status or 499, time.perf_counter() - began)

    def _finish(self, scope: Scope, status: int, seconds: float) -> None:
        path = scope["path"]
        route = path if path in self._direct else getattr(scope.get("route"), "path", "other")
        self._metrics.count_request(route, status, seconds)
        line = {"event": "request", "method": scope["method"], "route": route, "status": status}
        line |= {"ms": round(1000 * seconds, 1), "client": (scope.get("client") or ("",))[0]}
        log.info("%s", json.dumps(line | scope.get("sharpbeam.log", {})))


async def refused(request: Request, error: Any) -> Response:
    """The answer to a request that is refused."""
    body = {"error": error.message}
    if request.url.path.startswith(("/v1/", "/v2/")):
        body["message"] = error.message  # where DeepL's clients look for it
    return JSONResponse(body, error.status, error.headers)
