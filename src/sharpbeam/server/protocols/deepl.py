"""DeepL's API, version 2: the part that its clients need to translate texts."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from sharpbeam.server.bodies import JsonAnswer
from sharpbeam.server.endpoint import Gate
from sharpbeam.server.fields import Fields, Texts, texts_of
from sharpbeam.server.languages import name_of
from sharpbeam.server.refusals import bad_request
from sharpbeam.server.service import Query


class TranslateFields(Fields):
    """A request for translations."""

    text: Texts = Field(description="the texts")
    target_lang: str = Field(description="code of the language to translate into, as /v2/languages lists it")
    source_lang: str = Field("auto", description="without it, the language of each text is detected")
    tag_handling: Literal["text", "html"] = Field(
        "text", description="html: tags are kept, and inline ones move with their words"
    )


LANGUAGES = {
    "parameters": [
        {
            "name": "type",
            "in": "query",
            "description": "target: languages to translate into; otherwise those of texts",
            "schema": {"enum": ["source", "target"], "default": "source"},
        }
    ]
}
# Asked for, these would have to be obeyed; others (formality prefer_*, context) are hints.
NOT_SERVED = ("glossary_id", "style_id", "translation_memory_id")


def router(gate: Gate) -> APIRouter:
    """The endpoints."""
    routes, service = APIRouter(prefix="/v2", tags=["DeepL"]), gate.service

    @routes.post("/translate", openapi_extra=TranslateFields.description("Translate texts as DeepL does"))
    async def translate(request: Request) -> Response:
        body = await gate.fields(request)
        for name in NOT_SERVED:
            if body.get(name):
                raise bad_request(f"{name} is not supported")
        if body.get("formality") in ("more", "less"):
            raise bad_request("formality is not supported")
        fields = TranslateFields.of(body)
        texts, source = texts_of(fields.text), fields.source_lang
        query = Query(texts, source, fields.target_lang, format=fields.tag_handling)
        results = await gate.translate(request, query)
        code = service.catalog.code_of(source) if source != "auto" else ""
        languages = [each.detection.language if each.detection else code for each in results]
        translations = [
            {"detected_source_language": language.upper(), "text": each.text, "billed_characters": len(text)}
            for language, text, each in zip(languages, texts, results, strict=True)
        ]
        return JsonAnswer({"translations": translations})

    @routes.get("/languages", summary="Languages as DeepL names them", openapi_extra=LANGUAGES)
    async def languages(request: Request) -> list[dict[str, Any]]:
        fields = await gate.fields(request)  # its client puts them into the body of a GET
        target = (request.query_params.get("type") or fields.get("type")) == "target"
        catalog = service.catalog
        codes = catalog.sources
        if target:
            codes = sorted({target for source in codes for target in catalog.targets(source)})
        formality = {"supports_formality": False} if target else {}
        return [{"language": code.upper(), "name": name_of(code), **formality} for code in codes]

    @routes.get("/usage", summary="Characters so far and their limit, which is none")
    async def usage(request: Request) -> dict[str, int]:
        gate.admit(request)
        return {"character_count": service.metrics.characters, "character_limit": 10**12}

    return routes
