"""DeepL's API, version 2: the part that its clients need to translate texts."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sharpbeam.server.bodies import JsonAnswer
from sharpbeam.server.endpoint import Gate, document, note, text_field, text_schema, texts_field
from sharpbeam.server.languages import name_of
from sharpbeam.server.refusals import bad_request
from sharpbeam.server.service import Asked

TRANSLATE = document(
    "Translate texts as DeepL does",
    {
        "text": {"type": "array", "items": {"type": "string"}, "description": "the texts"},
        "target_lang": text_schema("code of the language to translate into, as /v2/languages lists it", example="EN"),
        "source_lang": text_schema("without it, the language of each text is detected"),
        "tag_handling": {"enum": ["html"], "description": "html: tags are kept, and inline ones move with their words"},
    },
    ["text", "target_lang"],
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

    @routes.post("/translate", openapi_extra=TRANSLATE)
    async def translate(request: Request) -> Response:
        fields = await gate.fields(request)
        for name in NOT_SERVED:
            if fields.get(name):
                raise bad_request(f"{name} is not supported")
        if fields.get("formality") in ("more", "less"):
            raise bad_request("formality is not supported")
        texts, source = texts_field(fields, "text"), text_field(fields, "source_lang", "auto")
        asked = Asked(texts, source, text_field(fields, "target_lang"), format=_format(fields))
        note(request, texts=len(texts), characters=sum(map(len, texts)))
        done = await gate.answer(request, service.translate(asked))
        known = service.catalog.known(source) if source != "auto" else ""
        languages = [each.detected.language if each.detected else known for each in done]
        said = [
            {"detected_source_language": language.upper(), "text": each.text, "billed_characters": len(text)}
            for language, text, each in zip(languages, texts, done, strict=True)
        ]
        return JsonAnswer({"translations": said})

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
        return {"character_count": service.metrics.numbers.total("characters"), "character_limit": 10**12}

    return routes


def _format(fields: dict[str, Any]) -> str:
    handling = fields.get("tag_handling") or "text"
    if handling not in ("text", "html"):
        raise bad_request(f"tag_handling {str(handling)[:20]!r} is not supported")
    return str(handling)
