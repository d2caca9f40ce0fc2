"""DeepL's API for documents: upload one, ask how far it is, download its translation."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import Field

from sharpbeam.server.admission import AGAIN
from sharpbeam.server.bodies import RequestFields
from sharpbeam.server.deadline import Deadline
from sharpbeam.server.gate import Gate
from sharpbeam.server.protocols.deepl_glossaries import Glossaries
from sharpbeam.server.protocols.files import UploadFields, download, read_upload
from sharpbeam.server.refusals import Refused, bad_request, log_fault
from sharpbeam.server.store import LIFETIME, Store

MOST = 2500  # documents whose state is known
Id = Annotated[str, Path(description="document_id, as the upload returned it")]


class DocumentFields(UploadFields):
    """A document, and how it is to be translated."""

    target_lang: str = Field(description="code of the language to translate into")
    source_lang: str = Field("auto", description="code of its language; without it, it is detected")
    glossary_id: str = Field("", description="a glossary for this direction; needs source_lang")


class KeyFields(RequestFields):
    """The key of a document."""

    document_key: str = Field(description="as the upload returned it")


@dataclass(frozen=True)
class Upload:
    """A document that is translated while its client asks from time to time how far it is."""

    key: str
    work: asyncio.Task[tuple[str, str]]  # to the name of its translation, or to why there is none


def router(gate: Gate, glossaries: Glossaries, files: Store[bytes]) -> APIRouter:
    """The endpoints."""
    routes, service = APIRouter(prefix="/v2", tags=["DeepL"]), gate.service
    documents = Store[Upload]("document", MOST, lifetime=LIFETIME + service.options.file_timeout)

    @routes.post("/document", openapi_extra=DocumentFields.description("Upload a document to translate"))
    async def upload(request: Request) -> dict[str, str]:
        fields, content, suffix, format = await read_upload(gate, request, DocumentFields)
        source, target = fields.source_lang, service.catalog.code_of(fields.target_lang)
        if source != "auto":
            service.catalog.route(service.catalog.code_of(source), target)
        client = gate.client(request)
        terms = glossaries.glossary(client, fields.glossary_id, source, target)

        async def work() -> tuple[str, str]:  # never raises: what the task keeps of an error holds the document too
            try:
                with Deadline(service.options.file_timeout):
                    translation = None
                    while translation is None:  # it was accepted, so it waits while the server is busy
                        try:
                            translation = await service.translate_file(content, format, source, target, terms)
                        except Refused as error:
                            if error.status != 429:
                                return "", str(error)
                            await asyncio.sleep(AGAIN)
                    return files.put(client, translation, len(translation), suffix), ""
            except Exception as error:
                log_fault(error)
                return "", "internal error"
            return "", "it took too long"

        document = Upload(secrets.token_urlsafe(24), asyncio.create_task(work()))
        return {"document_id": documents.put(client, document), "document_key": document.key}

    async def work_of(request: Request, id: str) -> asyncio.Task[tuple[str, str]]:
        key = KeyFields.of(await gate.fields(request)).document_key
        document = documents.get(id).value
        if not hmac.compare_digest(document.key.encode(), key.encode()):
            raise Refused(404, "there is no such document, or no longer")
        return document.work

    @routes.post("/document/{id}", openapi_extra=KeyFields.description("The state of a document"))
    async def state(request: Request, id: Id) -> dict[str, Any]:
        work = await work_of(request, id)
        if not work.done():
            return {"document_id": id, "status": "translating"}
        if reason := work.result()[1]:
            return {"document_id": id, "status": "error", "error_message": reason}
        return {"document_id": id, "status": "done"}

    @routes.post("/document/{id}/result", openapi_extra=KeyFields.description("The translation of a document"))
    async def result(request: Request, id: Id) -> Response:
        work = await work_of(request, id)
        if not work.done():
            raise Refused(503, "Document translation is not done", AGAIN)
        if reason := work.result()[1]:
            raise bad_request(f"Document translation failed: {reason}")
        return download(files, work.result()[0])

    return routes
