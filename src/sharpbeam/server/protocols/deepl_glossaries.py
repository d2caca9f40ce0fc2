"""DeepL's API for glossaries, version 2: each has one direction, and cannot be changed."""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from sharpbeam.server.bodies import RequestFields, Terms, glossary_of
from sharpbeam.server.catalog import Catalog
from sharpbeam.server.gate import Gate
from sharpbeam.server.refusals import bad_request
from sharpbeam.server.store import Deposit, Store
from sharpbeam.text.glossary import Glossary

KIND = "text/tab-separated-values"
DELIMITERS = {"tsv": "\t", "csv": ","}
MOST_TERMS = 10_000  # of a glossary
SPACE, LEAST = 64 * 2**20, 16 * 1024  # bytes of all glossaries, and what each counts as at least
TERM = 500  # bytes of a term in memory, about, besides its text

Id = Annotated[str, Path(description="glossary_id, as a glossary has it")]


class GlossaryFields(RequestFields):
    """A new glossary."""

    name: str = Field(description="any name")
    source_lang: str = Field(description="code of the language of the terms")
    target_lang: str = Field(description="code of the language of their translations")
    entries: str = Field(description="a term and its translation on each line")
    entries_format: Literal["tsv", "csv"] = Field("tsv", description="what separates them: a tab or a comma")


@dataclass(frozen=True)
class NamedGlossary:
    """A glossary of a client."""

    name: str
    source: str
    target: str
    terms: Glossary


class Glossaries(Store[NamedGlossary]):
    """Glossaries of clients, each for the one that made it, until it is deleted or the server ends."""

    def __init__(self, catalog: Catalog) -> None:
        super().__init__("glossary", SPACE, LEAST, math.inf)
        self.catalog = catalog

    def glossary(self, client: str, id: str, source: str, target: str) -> Glossary | None:
        """The glossary with an `id`, for texts from `source` to `target`; None without an `id`. Raises Refused."""
        if not id:
            return None
        named, own = self.get(id, client).value, (self.catalog.code_of(source), self.catalog.code_of(target))
        if (named.source, named.target) != own:
            raise bad_request(f"the glossary is from {named.source} to {named.target}, not {own[0]} to {own[1]}")
        return named.terms


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
        source, target = catalog.code_of(fields.source_lang), catalog.code_of(fields.target_lang)
        catalog.route(source, target)
        named = NamedGlossary(fields.name, source, target, _terms(fields.entries, DELIMITERS[fields.entries_format]))
        size = len(fields.name) + len(fields.entries) + TERM * len(named.terms.terms)
        id = glossaries.put(gate.client(request), named, size)
        return JSONResponse(_described(id, glossaries.get(id)), 201)

    @routes.get("/glossaries", summary="The glossaries of a client")
    async def all_glossaries(request: Request) -> dict[str, Any]:
        gate.admit(request)
        return {"glossaries": [_described(id, item) for id, item in glossaries.of(gate.client(request))]}

    @routes.get("/glossaries/{id}", summary="A glossary, without its entries")
    async def glossary(request: Request, id: Id) -> dict[str, Any]:
        gate.admit(request)
        return _described(id, glossaries.get(id, gate.client(request)))

    @routes.get("/glossaries/{id}/entries", summary="The entries of a glossary, separated by tabs")
    async def entries(request: Request, id: Id) -> Response:
        gate.admit(request)
        terms = glossaries.get(id, gate.client(request)).value.terms.terms
        return Response("\n".join(f"{term}\t{forms[0]}" for term, forms in terms.items()), media_type=KIND)

    @routes.delete("/glossaries/{id}", summary="Delete a glossary", status_code=204)
    async def delete(request: Request, id: Id) -> None:
        gate.admit(request)
        glossaries.delete(id, gate.client(request))

    return routes


def _terms(entries: str, delimiter: str) -> Glossary:
    """The glossary in a table; raises Refused. Columns after the second one, as the languages, are ignored."""
    lines = io.StringIO(entries, newline="")
    try:
        quoting: Any = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
        rows = [row for row in csv.reader(lines, delimiter=delimiter, quoting=quoting) if any(row)]
    except csv.Error as error:
        raise bad_request(f"Invalid request: entries cannot be read: {error}") from None
    if short := next((row for row in rows if len(row) < 2), None):
        raise bad_request(f"Invalid request: the entry {short[0][:40]!r} has no translation")
    terms: Terms = {row[0].strip(): row[1].strip() for row in rows}
    if (glossary := glossary_of(terms, MOST_TERMS)) is None:
        raise bad_request("Invalid request: entries has no terms")
    return glossary


def _described(id: str, item: Deposit[NamedGlossary]) -> dict[str, Any]:
    """A glossary in DeepL's form."""
    return {
        "glossary_id": id,
        "name": item.value.name,
        "ready": True,
        "source_lang": item.value.source,
        "target_lang": item.value.target,
        "creation_time": datetime.fromtimestamp(item.time, timezone.utc).isoformat(),
        "entry_count": len(item.value.terms.terms),
    }
