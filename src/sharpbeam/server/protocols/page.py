"""The web page and what only it asks for; health and metrics; the description of the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response

from sharpbeam.server.endpoint import KEY, SOURCE, TARGET, Gate, document, number_field, text_field, text_schema
from sharpbeam.server.refusals import Refused, bad_request

HOME = Path(__file__).parents[1] / "page"
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
ALTERNATIVES = document(
    "Other words at a place of a translated sentence, each with the rest of the sentence",
    {
        "sentence": text_schema("a sentence of the source", example="Guten Morgen."),
        "source": SOURCE,
        "target": TARGET,
        "prefix": text_schema("what stays of the translation, before the place", example="Good"),
        "count": {"type": "integer", "default": 5, "description": "number of other words"},
        "api_key": KEY,
    },
    ["sentence", "source", "target"],
)


def router(gate: Gate) -> APIRouter:
    """The endpoints."""
    routes, service = APIRouter(tags=["Sharpbeam"]), gate.service
    options = service.options

    @routes.get("/health", summary="Whether the server works")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @routes.post("/alternatives", openapi_extra=ALTERNATIVES)
    async def alternatives(request: Request) -> dict[str, Any]:
        fields = await gate.fields(request)
        sentence, prefix = text_field(fields, "sentence"), text_field(fields, "prefix", "")
        known = service.catalog.known
        route = service.catalog.route(known(text_field(fields, "source")), known(text_field(fields, "target")))
        count = number_field(fields, "count", 5)
        if not 1 <= count <= max(1, options.alternatives_limit):
            raise bad_request(f"Invalid request: count must be between 1 and {options.alternatives_limit}")
        if not 0 < len(sentence) + len(prefix) <= (options.char_limit or 10**9):
            raise bad_request(f"Invalid request: request exceeds text limit ({options.char_limit})")
        if not route:
            return {"alternatives": []}
        return {"alternatives": await gate.answer(request, service.alternatives(sentence, route, prefix, count))}

    if options.metrics:

        @routes.get("/metrics", summary="Metrics for Prometheus")
        async def metrics(request: Request) -> Response:
            gate.name(request)
            return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    if options.page:

        @routes.get("/", include_in_schema=False)
        async def index() -> Response:
            return _file("index.html")

        @routes.get("/docs", include_in_schema=False)
        async def docs() -> Response:
            return _file("docs.html")

        @routes.get("/page/{name}", include_in_schema=False)
        async def page(name: str) -> Response:
            return _file(name)

    return routes


def _file(name: str) -> Response:
    if name not in {path.name for path in HOME.iterdir()}:
        raise Refused(404, "Not Found")
    return FileResponse(HOME / name, media_type=KINDS[Path(name).suffix], headers={"Cache-Control": "no-cache"})
