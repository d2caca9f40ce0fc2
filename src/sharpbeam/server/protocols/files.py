"""LibreTranslate's API for files: a file in, the address of its translation out."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Any, ClassVar, TypeVar

from fastapi import APIRouter, Request
from fastapi import Path as Name
from fastapi.responses import Response
from pydantic import Field
from starlette.datastructures import UploadFile

from sharpbeam.documents.formats.registry import FORMATS
from sharpbeam.server.bodies import RequestFields, read_form
from sharpbeam.server.gate import Gate, note
from sharpbeam.server.refusals import Refused, bad_request
from sharpbeam.server.store import Store

OVERHEAD = 4096  # bytes of a form around its file


class UploadFields(RequestFields):
    """A form with a file."""

    kinds: ClassVar[tuple[str, ...]] = ("multipart/form-data",)
    file: Annotated[Any, Field(json_schema_extra={"type": "string", "format": "binary"})] = Field(
        description="the document; its suffix says which format it has"
    )


class FileFields(UploadFields):
    """A file, and how it is to be translated."""

    source: str = Field(description="code of its language, as /languages lists it, or auto")
    target: str = Field(description="code of the language to translate into")


Form = TypeVar("Form", bound=UploadFields)


def suffixes() -> list[str]:
    """The suffixes of files that can be translated: those of formats that need no names of fields."""
    return [suffix for format in FORMATS.values() if not format.fields for suffix in format.suffixes]


async def read_upload(gate: Gate, request: Request, kind: type[Form]) -> tuple[Form, bytes, str, str]:
    """The fields of a form, and the content, suffix and format of its file; raises Refused."""
    options = gate.service.options
    if not options.file_limit:
        raise Refused(403, "Files translation are disabled on this server.")
    admitted = gate.admit_by_head(request)
    form = await read_form(request, options.file_limit + OVERHEAD, options.body_timeout)
    if not admitted:
        gate.admit_by_body(request, form)
    fields = kind.of(dict(form))
    if not isinstance(fields.file, UploadFile) or not fields.file.filename:
        raise bad_request("Invalid request: missing file parameter")
    suffix = PurePosixPath(fields.file.filename.replace("\\", "/")).suffix.lower()
    if suffix not in suffixes():
        raise bad_request(f"Invalid request: file format not supported; choose one of {' '.join(suffixes())}")
    content = await fields.file.read()
    await form.close()
    note(request, bytes=len(content), suffix=suffix)
    return fields, content, suffix, next(name for name, format in FORMATS.items() if suffix in format.suffixes)


def download(files: Store[bytes], name: str) -> Response:
    """The answer with a file, which browsers save."""
    headers = {"Content-Disposition": "attachment"}  # the page knows a name
    return Response(files.get(name).value, media_type="application/octet-stream", headers=headers)


def router(gate: Gate, files: Store[bytes]) -> APIRouter:
    """The endpoints."""
    routes, service = APIRouter(tags=["LibreTranslate"]), gate.service

    @routes.post("/translate_file", openapi_extra=FileFields.description("Translate a file"))
    async def translate_file(request: Request) -> dict[str, Any]:
        fields, content, suffix, format = await read_upload(gate, request, FileFields)
        work = service.translate_file(content, format, fields.source, fields.target)
        translation = await gate.answer(request, work, service.options.file_timeout)
        file = files.put(gate.client(request), translation, len(translation), suffix)
        return {"translatedFileUrl": str(request.url_for("download_file", name=file))}

    @routes.get("/download_file/{name}", summary="The translation of a file")
    async def download_file(name: Annotated[str, Name(description="as translatedFileUrl has it")]) -> Response:
        return download(files, name)

    return routes
