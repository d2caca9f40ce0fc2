"""LibreTranslate's API, and NeMo Curator's on the same path: `texts` in place of `q`."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sharpbeam.server.bodies import JsonAnswer
from sharpbeam.server.detection import Detection, detections
from sharpbeam.server.endpoint import (
    KEY,
    TARGET,
    Gate,
    document,
    flag_field,
    glossary_field,
    note,
    number_field,
    text_field,
    text_schema,
    texts_field,
)
from sharpbeam.server.languages import name_of
from sharpbeam.server.protocols.events import event_stream
from sharpbeam.server.protocols.files import suffixes
from sharpbeam.server.protocols.words import sentence_details
from sharpbeam.server.refusals import Refused, bad_request
from sharpbeam.server.service import Asked, Translated

TEXTS = {"type": "array", "items": {"type": "string"}}
MOST_TERMS = 1000  # of a glossary
FORMATS = ("text", "html")
TRANSLATE = document(
    "Translate a text or a list of texts",
    {
        "q": {
            "oneOf": [{"type": "string"}, TEXTS],
            "description": "a text, or a list of texts; the answer has the same form",
            "example": "Guten Morgen.",
        },
        "source": text_schema("code of the language, or auto: it is detected", example="de"),
        "target": TARGET,
        "format": {
            "enum": list(FORMATS),
            "default": "text",
            "description": "html: tags are kept, and inline ones move with their words",
        },
        "alternatives": {"type": "integer", "default": 0, "description": "number of other translations of each text"},
        "glossary": {
            "type": "object",
            "additionalProperties": {"oneOf": [{"type": "string"}, TEXTS]},
            "description": "terms and their translations, or forms of which one is enough",
        },
        "api_key": KEY,
        "stream": {"type": "boolean", "description": "server-sent events, one for each sentence that is done"},
        "details": {"type": "boolean", "description": "flags, confidence, words and alignment of each sentence"},
        "texts": TEXTS | {"description": "NeMo Curator: instead of q"},
        "src_lang": text_schema("NeMo Curator: instead of source"),
        "tgt_lang": text_schema("NeMo Curator: instead of target"),
    },
    [],
)
DETECT = document("Detect the language of a text", {"q": text_schema("the text"), "api_key": KEY}, ["q"])


def router(gate: Gate) -> APIRouter:
    """The endpoints."""
    routes, service = APIRouter(tags=["LibreTranslate"]), gate.service

    @routes.post("/translate", openapi_extra=TRANSLATE)
    async def translate(request: Request) -> Response:
        fields = await gate.fields(request)
        if "texts" in fields:
            texts = texts_field(fields, "texts")
            note(request, texts=len(texts), characters=sum(map(len, texts)))
            asked = Asked(texts, text_field(fields, "src_lang"), text_field(fields, "tgt_lang"))
            done = await gate.answer(request, service.translate(asked))
            return JsonAnswer({"translations": [each.text for each in done]})
        asked, several = _asked(fields)
        note(request, texts=len(asked.texts), characters=sum(map(len, asked.texts)))
        if flag_field(fields, "stream"):
            return await event_stream(gate, request, asked, lambda done: _answer(done, asked, several))
        done = await gate.answer(request, service.translate(asked))
        if asked.details:  # the words of many sentences take longer than others may wait
            return await asyncio.to_thread(lambda: JsonAnswer(_answer(done, asked, several)))
        return JsonAnswer(_answer(done, asked, several))

    @routes.post("/detect", openapi_extra=DETECT)
    async def detect(request: Request) -> list[dict[str, Any]]:
        fields = await gate.fields(request)
        texts = texts_field(fields, "q")
        service.check(Asked(texts, "auto", ""))
        return [_detected(each) for each in detections(" ".join(texts), service.catalog.languages())]

    @routes.get("/languages", summary="The languages that are served")
    async def languages() -> list[dict[str, Any]]:
        catalog = service.catalog
        return [
            {"code": code, "name": name_of(code), "targets": sorted({code, *catalog.targets(code)})}
            for code in catalog.languages()
        ]

    @routes.get("/frontend/settings", summary="Settings of the server that pages need")
    async def settings() -> dict[str, Any]:
        options, catalog = service.options, service.catalog
        target = catalog.targets(catalog.sources[0])[0]
        return {
            "charLimit": options.char_limit or -1,
            "frontendTimeout": 500,
            "apiKeys": gate.keys.required,
            "keyRequired": gate.keys.required,
            "suggestions": False,
            "filesTranslation": bool(options.file_limit),
            "supportedFilesFormat": suffixes() if options.file_limit else [],
            "language": {
                "source": {"code": "auto", "name": "Auto Detect"},
                "target": {"code": target, "name": name_of(target)},
            },
        }

    @routes.post("/suggest", summary="Refused: suggestions are not stored")
    async def suggest() -> Response:
        raise Refused(403, "Suggestions are disabled on this server.")

    return routes


def _asked(fields: dict[str, Any]) -> tuple[Asked, bool]:
    """The request in `fields`, and whether its texts came as a list."""
    texts = texts_field(fields, "q")
    source, target = text_field(fields, "source"), text_field(fields, "target")
    form = text_field(fields, "format", "text")
    if form not in FORMATS:
        raise bad_request(f"{form[:40]} format is not supported")
    alternatives, details = number_field(fields, "alternatives", 0), flag_field(fields, "details")
    glossary = glossary_field(fields, "glossary", MOST_TERMS)
    asked = Asked(texts, source, target, form, alternatives, details, glossary)
    return asked, isinstance(fields["q"], list)


def _detected(found: Detection) -> dict[str, Any]:
    return {"confidence": found.confidence, "language": found.language}


def _answer(done: list[Translated], asked: Asked, several: bool) -> dict[str, Any]:
    """The answer in LibreTranslate's form."""
    fields: dict[str, list[Any]] = {"translatedText": [each.text for each in done]}
    if asked.source == "auto":
        fields["detectedLanguage"] = [_detected(each.detected) for each in done if each.detected]
    if asked.alternatives:
        fields["alternatives"] = [each.alternatives for each in done]
    if asked.details:
        fields["details"] = [[sentence_details(*sentence) for sentence in each.sentences] for each in done]
    return dict(fields) if several else {name: values[0] for name, values in fields.items()}
