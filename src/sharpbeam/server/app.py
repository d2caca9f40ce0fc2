"""The application: endpoints, errors, start and end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.options.machine import MachineOptions
from sharpbeam.options.schema import require
from sharpbeam.options.server import ServerOptions
from sharpbeam.server.boundary import Boundary, refused
from sharpbeam.server.catalog import Catalog
from sharpbeam.server.gate import Gate
from sharpbeam.server.pool import Pool
from sharpbeam.server.protocols import deepl, deepl_documents, deepl_glossaries, libretranslate
from sharpbeam.server.protocols import files as file_protocol
from sharpbeam.server.protocols import page as pages
from sharpbeam.server.protocols.deepl_glossaries import Glossaries
from sharpbeam.server.refusals import Refused
from sharpbeam.server.service import Service
from sharpbeam.server.store import Store
from sharpbeam.version import program_version

SPACE = 16  # translated files of the largest size that there is space for
LEAST = 64 * 1024  # bytes that a file counts as at least
OFTEN = ("/translate", "/v2/translate")  # endpoints that take a request and nothing else


def create_app(
    models: Sequence[str],
    options: ServerOptions | None = None,
    machine: MachineOptions | None = None,
    **defaults: Unpack[DecodeKeywords],
) -> Boundary:
    """An ASGI application that serves `models`, named as on the command line.

    `defaults` are options of decoding, as of `Translator`. Raises ModelError for what is no model, OptionError for a
    model without a known direction.
    """
    options = options or ServerOptions()
    require(bool(models) and not isinstance(models, str), "models", models, "a list of models")
    DecodeOptions.of(**defaults)  # raises before the first request
    service = Service(Catalog(models, options.pivot), Pool(machine, defaults), options)
    gate, glossaries = Gate(service), Glossaries(service.catalog)
    files = Store[bytes]("file", SPACE * options.file_limit, least=LEAST)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await service.pool.take([next(iter(service.catalog.entries))])  # the first request finds it loaded
        yield
        await service.close()

    app = FastAPI(
        title="Sharpbeam", version=program_version(), lifespan=lifespan, docs_url=None, redoc_url=None,
        exception_handlers={Refused: refused, HTTPException: _failed, Exception: _fault},
    )  # fmt: skip
    routers = [
        libretranslate.router(gate),
        file_protocol.router(gate, files),
        deepl.router(gate, glossaries),
        deepl_glossaries.router(gate, glossaries),
        deepl_documents.router(gate, glossaries, files),
        pages.router(gate),
    ]
    for router in routers:
        app.include_router(router)
    routes = [route for router in routers for route in router.routes if isinstance(route, APIRoute)]
    direct = {route.path: route.endpoint for route in routes if route.path in OFTEN}
    return Boundary(app, service.metrics, options.cors_origin, direct)


async def _failed(request: Request, error: Any) -> Response:
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


async def _fault(request: Request, error: Any) -> Response:
    return JSONResponse({"error": "internal error"}, 500)
