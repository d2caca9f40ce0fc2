"""LibreTranslate's API."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from pydantic import Field

from sharpbeam.documents import Sentence
from sharpbeam.server.bodies import RequestFields, Terms, Texts, glossary_of, texts_of
from sharpbeam.server.gate import Gate
from sharpbeam.server.languages import Detection, detections, name_of
from sharpbeam.server.protocols.files import suffixes
from sharpbeam.server.refusals import Refused
from sharpbeam.server.service import Query, TranslatedText


class LibreTranslateFields(RequestFields):
    """A request for translations."""

    q: Texts = Field(description="a text, or a list of texts; the answer has the same form")
    source: str = Field(description="code of the language, or auto: it is detected")
    target: str = Field(description="code of the language to translate into, as /languages lists it")
    format: Literal["text", "html"] = Field(
        "text", description="html: tags are kept, and inline ones move with their words"
    )
    alternatives: int = Field(0, description="number of other translations of each text")
    glossary: Terms = Field({}, description="terms and their translations, or forms of which one is enough")
    details: bool = Field(False, description="flags, confidence, words and alignment of each sentence")


class DetectFields(RequestFields):
    """A request for the language of a text."""

    q: Texts = Field(description="the text")


def router(gate: Gate) -> APIRouter:
    """The endpoints."""
    routes, service = APIRouter(tags=["LibreTranslate"]), gate.service

    @routes.post("/translate", openapi_extra=LibreTranslateFields.description("Translate a text or a list of texts"))
    async def translate(request: Request) -> Response:
        fields = LibreTranslateFields.of(await gate.fields(request))
        query = Query(
            texts_of(fields.q),
            fields.source,
            fields.target,
            format=fields.format,
            alternatives=fields.alternatives,
            details=fields.details,
            glossary=glossary_of(fields.glossary),
        )
        answer = partial(_answer, await gate.translate(request, query), query, isinstance(fields.q, list))
        # The words of many sentences take longer than others may wait.
        return await asyncio.to_thread(answer) if query.details else answer()

    @routes.post("/detect", openapi_extra=DetectFields.description("Detect the language of a text"))
    async def detect(request: Request) -> list[dict[str, Any]]:
        texts = texts_of(DetectFields.of(await gate.fields(request)).q)
        service.check(Query(texts, "auto", ""))
        return [_language(each) for each in detections(" ".join(texts), service.catalog.languages)]

    @routes.get("/languages", summary="The languages that are served")
    async def languages() -> list[dict[str, Any]]:
        catalog = service.catalog
        return [
            {"code": code, "name": name_of(code), "targets": sorted({code, *catalog.targets(code)})}
            for code in catalog.languages
        ]

    @routes.get("/frontend/settings", summary="Settings of the server that pages need")
    async def settings() -> dict[str, Any]:
        options, catalog = service.options, service.catalog
        target = catalog.targets(catalog.sources[0])[0]
        return {
            "charLimit": options.char_limit or -1,
            "frontendTimeout": 500,
            "apiKeys": gate.key_required,
            "keyRequired": gate.key_required,
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


def _language(detection: Detection) -> dict[str, Any]:
    return {"confidence": detection.confidence, "language": detection.language}


def _answer(results: list[TranslatedText], query: Query, several: bool) -> Response:
    """The answer in LibreTranslate's form."""
    fields: dict[str, list[Any]] = {"translatedText": [each.text for each in results]}
    if query.source == "auto":
        fields["detectedLanguage"] = [_language(each.detection) for each in results if each.detection]
    if query.alternatives:
        fields["alternatives"] = [each.alternatives for each in results]
    if query.details:
        fields["details"] = [[sentence_details(sentence) for sentence in each.sentences] for each in results]
    return JSONResponse(fields if several else {name: values[0] for name, values in fields.items()})


def sentence_details(sentence: Sentence) -> dict[str, Any]:
    """A sentence and its translation, what the guards say of it, and their words.

    A sentence has `confidence` (0 to 1: the share of its words that a reference is expected to have), and so has each
    word of a translation, with `source` (indices of source words). A word has `begin` and `end` (characters of its
    sentence).
    """
    return {
        "source": sentence.source,
        "translation": sentence.text,
        "flags": sentence.flags,
        "confidence": round(sentence.confidence, 4),
        "repaired": sentence.repaired,
        "words": [
            {"begin": word.start, "end": word.end, "confidence": round(word.confidence, 4), "source": word.sources}
            for word in sentence.words
        ],
        "source_words": [{"begin": begin, "end": end} for begin, end in sentence.source_words],
    }
