"""LibreTranslate's API for files: a file in, the address of its translation out."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Path as Name
from fastapi.responses import FileResponse, Response
from starlette.datastructures import UploadFile

from sharpbeam.documents.formats.registry import FORMATS
from sharpbeam.server.bodies import read_form
from sharpbeam.server.endpoint import KEY, SOURCE, TARGET, Gate, client_of, note, text_field, text_schema
from sharpbeam.server.files import Files
from sharpbeam.server.refusals import Refused, bad_request

FORM = {
    "type": "object",
    "properties": {
        "file": text_schema("the document; its suffix says which format it has", format="binary"),
        "source": SOURCE,
        "target": TARGET,
        "api_key": KEY,
    },
    "required": ["file", "source", "target"],
}
BODY = {"requestBody": {"content": {"multipart/form-data": {"schema": FORM}}}}
OVERHEAD = 4096  # bytes of a form around its file


def suffixes() -> list[str]:
    """The suffixes of files that can be translated: those of formats that need no names of fields."""
    whole = [known for known in FORMATS.values() if getattr(known, "fields", None) is None]
    return [suffix for known in whole for suffix in known.suffixes]


def router(gate: Gate, files: Files) -> APIRouter:
    """The endpoints."""
    routes, service = APIRouter(tags=["LibreTranslate"]), gate.service
    options = service.options

    @routes.post("/translate_file", openapi_extra=BODY, summary="Translate a file")
    async def translate_file(request: Request) -> dict[str, Any]:
        if not options.file_limit:
            raise Refused(403, "Files translation are disabled on this server.")
        admitted = gate.admit_by_header(request)
        form = await read_form(request, options.file_limit + OVERHEAD, options.body_timeout)
        fields = {name: value for name, value in form.items() if isinstance(value, str)}
        if not admitted:
            gate.admit(request, fields.get("api_key"))
        given = form.get("file")
        if not isinstance(given, UploadFile) or not given.filename:
            raise bad_request("Invalid request: missing file parameter")
        source, target = text_field(fields, "source"), text_field(fields, "target")
        suffix = PurePosixPath(given.filename.replace("\\", "/")).suffix.lower()
        if suffix not in suffixes():
            raise bad_request(f"Invalid request: file format not supported; choose one of {' '.join(suffixes())}")
        content = await given.read()
        await form.close()
        note(request, bytes=len(content), suffix=suffix)
        format_ = next(name for name, known in FORMATS.items() if suffix in known.suffixes)
        work = service.translate_file(content, format_, source, target)
        translated = await gate.answer(request, work, options.file_timeout)
        name = files.put(translated, suffix, request.scope["sharpbeam.log"]["key"] or client_of(request))
        return {"translatedFileUrl": str(request.url_for("download_file", name=name))}

    @routes.get("/download_file/{name}", summary="The translation of a file")
    async def download_file(name: Annotated[str, Name(description="as translatedFileUrl has it")]) -> Response:
        path = files.path(name)
        headers = {"Content-Disposition": f'attachment; filename="translation{path.suffix}"'}
        return FileResponse(path, media_type="application/octet-stream", headers=headers)

    return routes
