"""Translate documents: split, decode, move markup, write."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic

from sharpbeam.api.translator import Translator
from sharpbeam.decoding.results import EMPTY, Translation
from sharpbeam.documents.formats.interface import Content, Document
from sharpbeam.documents.formats.registry import format_of, read_document
from sharpbeam.documents.job import Job, Steps, run_steps
from sharpbeam.documents.paragraphs import Piece, is_sentence, joined, sentence_ranges
from sharpbeam.documents.segment import Part, Segment
from sharpbeam.documents.transfer import transfer
from sharpbeam.errors import InputError, OutputError
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.storage.atomic import write_bytes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sharpbeam.options.keywords import DecodeKeywords


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document."""

    source: str
    text: str  # its translation, without markup


@dataclass(frozen=True, slots=True)
class DocumentTranslation(Generic[Content]):
    """A translated document."""

    content: Content  # the document, in its format
    sentences: tuple[Sentence, ...]  # in order, without those that have no letter


def translate_text(
    translator: Translator,
    text: Content,
    *,
    format: str = "text",
    documents: DocumentOptions | None = None,
    progress: Callable[[int], None] | None = None,
    options: DecodeOptions | None = None,
    **keywords: Unpack[DecodeKeywords],
) -> DocumentTranslation[Content]:
    """Translate a document given as str, or as the bytes of a file; what comes out is of the same type.

    `format` is one of `format_names()`. Options are those of `Translator.translate`. source_language may be given
    for any model: one with a single direction takes it as a hint for splitting sentences. Raises InputError for a
    document that cannot be read as its format.
    """
    document = read_document(text, format)
    languages = {name: keywords.pop(name) for name in ("source_language", "target_language") if name in keywords}  # type: ignore[misc]
    tags = translator.loaded.language_tags
    if tags.tokens:
        keywords.update(languages)  # type: ignore[typeddict-item]
    chosen = (options or translator.defaults).changed(**keywords)
    language = str(languages.get("source_language", "")) or chosen.languages.source_language or tags.source
    steps = document_steps(document, documents or DocumentOptions(), language)
    return run_steps(steps, translator, chosen, progress)


def translate_document(
    translator: Translator,
    source: str | Path,
    output: str | Path,
    *,
    format: str = "auto",
    documents: DocumentOptions | None = None,
    progress: Callable[[int], None] | None = None,
    options: DecodeOptions | None = None,
    **keywords: Unpack[DecodeKeywords],
) -> DocumentTranslation[bytes]:
    """Translate the file `source` into the file `output`, which appears when it is complete.

    The format is that of the suffix of `source`, unless `format` names one. Otherwise as `translate_text`; raises
    OutputError if `output` cannot be written.
    """
    path = Path(source)
    name = format_of(path) if format == "auto" else format
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    done = translate_text(
        translator, content, format=name, documents=documents, progress=progress, options=options, **keywords
    )
    try:
        write_bytes(Path(output), done.content)
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror or error}.") from error
    return done


def document_steps(
    document: Document[Content], options: DocumentOptions, language: str = ""
) -> Steps[DocumentTranslation[Content]]:
    """The jobs of a document, at most `options.at_once` at a time; returns the translated document."""
    parts: list[list[Part]] = []
    sentences: list[Sentence] = []
    ranges = [sentence_ranges(segment, options, language) for segment in document.segments]
    first = 0
    while first < len(document.segments):
        last, count = first, 0
        while last < len(ranges) and (last == first or count + len(ranges[last]) <= options.at_once):
            count += len(ranges[last])
            last += 1
        group = document.segments[first:last]
        pieces = yield from _segment_steps(group, ranges[first:last])
        for segment, own in zip(group, pieces, strict=True):
            parts.append(transfer(segment, joined(segment, own)))
            sentences += [Sentence(segment.text[one.start : one.end], one.translation.text) for one in own]
        first = last
    return DocumentTranslation(document.write(parts), tuple(sentences))


def _segment_steps(segments: Sequence[Segment], ranges: Sequence[list[tuple[int, int]]]) -> Steps[list[list[Piece]]]:
    """Decode the sentences of segments; equal ones once."""
    wanted: dict[str, bool] = {}  # sentences, and whether their attention is needed
    for segment, own in zip(segments, ranges, strict=True):
        for start, end in own:
            text = segment.text[start:end]
            if is_sentence(text):
                wanted[text] = wanted.get(text, False) or bool(segment.tags)
    jobs = [Job(text, {"return_attention": True} if attention else {}) for text, attention in wanted.items()]
    answers = dict(zip(wanted, (yield jobs) if jobs else (), strict=True))

    def piece(segment: Segment, start: int, end: int) -> Piece:
        text = segment.text[start:end]
        return Piece(start, end, answers.get(text) or Translation(text, (replace(EMPTY, text=text),)))

    return [[piece(segment, start, end) for start, end in own] for segment, own in zip(segments, ranges, strict=True)]
