"""The web page and what only it asks for; health and metrics; the description of the API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response
from pydantic import Field

from sharpbeam.server.bodies import RequestFields
from sharpbeam.server.gate import Gate
from sharpbeam.server.refusals import Refused, bad_request

HOME = Path(__file__).parents[1] / "page"
KINDS = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class AlternativesFields(RequestFields):
    """A request for other words."""

    sentence: str = Field(description="a sentence of the source")
    source: str = Field(description="code of its language, as /languages lists it")
    target: str = Field(description="code of the language to translate into")
    prefix: str = Field("", description="what stays of the translation, before the place")
    count: int = Field(6, description="number of other words; if it is left out, at most as many as may be asked for")


def router(gate: Gate) -> APIRouter:
    """The endpoints."""
    routes, service = APIRouter(tags=["Sharpbeam"]), gate.service
    options = service.options
    title = "Other words at a place of a translated sentence, each with the rest of the sentence"

    @routes.get("/health", summary="Whether the server works")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @routes.post("/alternatives", openapi_extra=AlternativesFields.description(title))
    async def alternatives(request: Request) -> dict[str, Any]:
        fields = AlternativesFields.of(await gate.fields(request))
        code_of = service.catalog.code_of
        route = service.catalog.route(code_of(fields.source), code_of(fields.target))
        most = max(1, options.alternatives_limit)
        count = fields.count if "count" in fields.model_fields_set else min(fields.count, most)
        if not 1 <= count <= most:
            raise bad_request(f"Invalid request: count must be between 1 and {most}")
        if len(fields.sentence) + len(fields.prefix) > (options.char_limit or 10**9):
            raise bad_request(f"Invalid request: request exceeds text limit ({options.char_limit})")
        if not route:
            return {"alternatives": []}
        work = service.alternatives(fields.sentence, route, fields.prefix, count)
        return {"alternatives": await gate.answer(request, work)}

    @routes.get("/metrics", summary="Metrics for Prometheus")
    async def metrics(request: Request) -> Response:
        gate.admit(request)
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4")

    @routes.get("/page/{name}", include_in_schema=False)
    async def page(name: str) -> Response:
        if name not in {path.name for path in HOME.iterdir()}:
            raise Refused(404, "Not Found")
        kind = KINDS[Path(name).suffix]
        return FileResponse(HOME / name, media_type=kind, headers={"Cache-Control": "no-cache"})

    @routes.get("/", include_in_schema=False)
    async def index() -> Response:
        return await page("index.html")

    @routes.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return await page("docs.html")

    return routes
