"""DeepL's API for documents: upload one, ask how far it is, download its translation."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from fastapi.responses import Response
from pydantic import Field

from sharpbeam.server.documents import Documents
from sharpbeam.server.endpoint import Gate
from sharpbeam.server.fields import RequestFields
from sharpbeam.server.glossaries import Glossaries
from sharpbeam.server.protocols.files import UploadFields, download, read_upload

Id = Annotated[str, Path(description="document_id, as the upload returned it")]


class DocumentFields(UploadFields):
    """A document, and how it is to be translated."""

    target_lang: str = Field(description="code of the language to translate into")
    source_lang: str = Field("auto", description="code of its language; without it, it is detected")
    glossary_id: str = Field("", description="a glossary for this direction; needs source_lang")


class KeyFields(RequestFields):
    """The key of a document."""

    document_key: str = Field(description="as the upload returned it")


def router(gate: Gate, glossaries: Glossaries, documents: Documents) -> APIRouter:
    """The endpoints."""
    routes, catalog = APIRouter(prefix="/v2", tags=["DeepL"]), gate.service.catalog

    @routes.post("/document", openapi_extra=DocumentFields.upload_description("Upload a document to translate"))
    async def upload(request: Request) -> dict[str, str]:
        fields, content, suffix, format = await read_upload(gate, request, DocumentFields)
        source, target = fields.source_lang, catalog.code_of(fields.target_lang)
        if source != "auto":
            catalog.route(catalog.code_of(source), target)
        client = gate.client(request)
        terms = glossaries.glossary(client, fields.glossary_id, source, target)
        document, key = documents.begin(client, content, format, suffix, (source, target), terms)
        return {"document_id": document, "document_key": key}

    @routes.post("/document/{id}", openapi_extra=KeyFields.description("The state of a document"))
    async def state(request: Request, id: Id) -> dict[str, Any]:
        facts = documents.state(id, KeyFields.of(await gate.fields(request)).document_key)
        error = {"error_message": facts["message"]} if facts["status"] == "error" else {}
        return {"document_id": id, "status": facts["status"], **error}

    @routes.post("/document/{id}/result", openapi_extra=KeyFields.description("The translation of a document"))
    async def result(request: Request, id: Id) -> Response:
        return download(documents.result(id, KeyFields.of(await gate.fields(request)).document_key))

    return routes
