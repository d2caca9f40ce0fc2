"""DeepL's API for glossaries, version 2: each has one direction, and cannot be changed."""

from __future__ import annotations

import csv
import io
from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from sharpbeam.server.endpoint import Gate
from sharpbeam.server.fields import RequestFields
from sharpbeam.server.glossaries import Glossaries
from sharpbeam.server.refusals import bad_request

KIND = "text/tab-separated-values"
DELIMITERS = {"tsv": "\t", "csv": ","}

Id = Annotated[str, Path(description="glossary_id, as a glossary has it")]


class GlossaryFields(RequestFields):
    """A new glossary."""

    name: str = Field(description="any name")
    source_lang: str = Field(description="code of the language of the terms")
    target_lang: str = Field(description="code of the language of their translations")
    entries: str = Field(description="a term and its translation on each line")
    entries_format: Literal["tsv", "csv"] = Field("tsv", description="what separates them: a tab or a comma")


def router(gate: Gate, glossaries: Glossaries) -> APIRouter:
    """The endpoints."""
    routes, catalog = APIRouter(prefix="/v2", tags=["DeepL"]), gate.service.catalog

    @routes.get("/glossary-language-pairs", summary="Directions for which there may be glossaries")
    async def pairs() -> dict[str, Any]:
        codes = [(source, target) for source in catalog.sources for target in catalog.targets(source)]
        return {"supported_languages": [{"source_lang": source, "target_lang": target} for source, target in codes]}

    @routes.post("/glossaries", openapi_extra=GlossaryFields.description("Make a glossary"), status_code=201)
    async def create(request: Request) -> Response:
        fields = GlossaryFields.of(await gate.fields(request))
        terms = _terms(fields.entries, DELIMITERS[fields.entries_format])
        facts = glossaries.add(gate.client(request), fields.name, fields.source_lang, fields.target_lang, terms)
        return JSONResponse(_described(facts), 201)

    @routes.get("/glossaries", summary="The glossaries of a client")
    async def all_glossaries(request: Request) -> dict[str, Any]:
        gate.admit(request)
        return {"glossaries": [_described(facts) for facts in glossaries.all(gate.client(request))]}

    @routes.get("/glossaries/{id}", summary="A glossary, without its entries")
    async def glossary(request: Request, id: Id) -> dict[str, Any]:
        gate.admit(request)
        return _described(glossaries.facts(gate.client(request), id))

    @routes.get("/glossaries/{id}/entries", summary="The entries of a glossary, separated by tabs")
    async def entries(request: Request, id: Id) -> Response:
        gate.admit(request)
        terms = glossaries.entries(gate.client(request), id)
        return Response("\n".join(f"{term}\t{text}" for term, text in terms.items()), media_type=KIND)

    @routes.delete("/glossaries/{id}", summary="Delete a glossary", status_code=204)
    async def delete(request: Request, id: Id) -> None:
        gate.admit(request)
        glossaries.delete(gate.client(request), id)

    return routes


def _terms(entries: str, delimiter: str) -> dict[str, str]:
    """The terms of a table; raises Refused. Columns after the second one, as the languages, are ignored."""
    lines = io.StringIO(entries, newline="")
    try:
        quoting: Any = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        rows = [row for row in csv.reader(lines, delimiter=delimiter, quoting=quoting) if any(row)]
    except csv.Error as error:
        raise bad_request(f"Invalid request: entries cannot be read: {error}") from None
    if short := next((row for row in rows if len(row) < 2), None):
        raise bad_request(f"Invalid request: the entry {short[0][:40]!r} has no translation")
    return {row[0].strip(): row[1].strip() for row in rows}


def _described(facts: dict[str, Any]) -> dict[str, Any]:
    """A glossary in DeepL's form."""
    return {
        "glossary_id": facts["id"],
        "name": facts["name"],
        "ready": True,
        "source_lang": facts["source"],
        "target_lang": facts["target"],
        "creation_time": datetime.fromtimestamp(facts["time"], timezone.utc).isoformat(),
        "entry_count": facts["count"],
    }
