"""DeepL's API, version 2: the part that its clients need to translate texts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi import Query as QueryField
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from sharpbeam.documents import TagOptions
from sharpbeam.server.bodies import RequestFields, Texts, texts_of
from sharpbeam.server.gate import Gate
from sharpbeam.server.languages import name_of
from sharpbeam.server.protocols.deepl_glossaries import Glossaries
from sharpbeam.server.refusals import bad_request
from sharpbeam.server.service import Query


class DeeplFields(RequestFields):
    """A request for translations; fields that are not here, as split_sentences, have no effect."""

    text: Texts = Field(description="the texts")
    target_lang: str = Field(description="code of the language to translate into, as /v2/languages lists it")
    source_lang: str = Field("auto", description="without it, the language of each text is detected")
    context: str = Field("", description="accepted, without effect")
    formality: Literal["default", "prefer_more", "prefer_less"] = Field(
        "default", description="without effect: no model has degrees of it"
    )
    glossary_id: str = Field("", description="a glossary for this direction; needs source_lang")
    tag_handling: Literal["text", "html", "xml"] = Field(
        "text", description="html, xml: tags are kept, and inline ones move with their words"
    )
    ignore_tags: Texts = Field([], description="elements that are copied with what they hold")
    splitting_tags: Texts = Field([], description="elements between sentences")
    non_splitting_tags: Texts = Field([], description="elements in a sentence")
    outline_detection: bool = Field(True, description="xml: which other elements are in a sentence shows their place")


Kind = Annotated[str, QueryField(description="target: languages to translate into; otherwise those of texts")]
NOT_SERVED = ("glossary_ids", "style_id", "translation_memory_id")  # which would have to be obeyed


def router(gate: Gate, glossaries: Glossaries) -> APIRouter:
    """The endpoints."""
    routes, service = APIRouter(tags=["DeepL"]), gate.service

    @routes.get("/v1/translate", summary="As /v2/translate, for older clients")
    @routes.get("/v2/translate", summary="As a POST")
    @routes.post("/v1/translate", summary="As /v2/translate, for older clients")
    @routes.post("/v2/translate", openapi_extra=DeeplFields.description("Translate texts as DeepL does"))
    async def translate(request: Request) -> Response:
        body = await gate.fields(request)
        for name in NOT_SERVED:
            if body.get(name):
                raise bad_request(f"{name} is not supported")
        fields = DeeplFields.of(body)
        texts, source, target = texts_of(fields.text), fields.source_lang, fields.target_lang
        terms = glossaries.glossary(gate.client(request), fields.glossary_id, source, target)
        query = Query(texts, source, target, format=fields.tag_handling, glossary=terms, tags=_tags(fields))
        results = await gate.translate(request, query)
        code = service.catalog.code_of(source) if source != "auto" else ""
        languages = [each.detection.language if each.detection else code for each in results]
        translations = [
            {"detected_source_language": language.upper(), "text": each.text, "billed_characters": len(text)}
            for language, text, each in zip(languages, texts, results, strict=True)
        ]
        return JSONResponse({"translations": translations})

    @routes.get("/v2/languages", summary="Languages as DeepL names them")
    async def languages(request: Request, type: Kind = "source") -> list[dict[str, Any]]:
        target = (await gate.fields(request)).get("type") == "target"  # of the address, or the body of a GET
        catalog = service.catalog
        codes = catalog.sources
        if target:
            codes = sorted({target for source in codes for target in catalog.targets(source)})
        formality = {"supports_formality": False} if target else {}
        return [{"language": code.upper(), "name": name_of(code), **formality} for code in codes]

    @routes.get("/v2/usage", summary="Characters so far and their limit, which is none")
    async def usage(request: Request) -> dict[str, int]:
        gate.admit(request)
        return {"character_count": service.metrics.character_count, "character_limit": 10**12}

    return routes


def _tags(fields: DeeplFields) -> TagOptions | None:
    """The elements that the client names; None for plain text."""
    if fields.tag_handling == "text":
        return None
    ignore, splitting, non_splitting = (
        frozenset(name.strip().lower() for names in texts_of(field) for name in names.split(",") if name.strip())
        for field in (fields.ignore_tags, fields.splitting_tags, fields.non_splitting_tags)
    )
    return TagOptions(ignore, splitting, non_splitting, fields.outline_detection)
