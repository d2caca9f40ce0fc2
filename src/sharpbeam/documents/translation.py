"""Translate documents: split, decode, move markup, write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic

from sharpbeam.api.translator import Translator
from sharpbeam.contract.answers import Piece
from sharpbeam.contract.answers import joined as joined_line
from sharpbeam.contract.confidence import Word, aligned_words, mean_confidence, word_confidences
from sharpbeam.contract.guards import Decoded
from sharpbeam.contract.sentences import Contract, word_rarity
from sharpbeam.contract.steps import Steps
from sharpbeam.documents.decoding import decode_steps, kept
from sharpbeam.documents.formats.interface import Content, Document
from sharpbeam.documents.formats.registry import format_of, read_document
from sharpbeam.documents.glossary import with_terms
from sharpbeam.documents.job import run_steps
from sharpbeam.documents.paragraphs import joined, sentence_ranges
from sharpbeam.documents.segment import Part, Segment, is_translatable
from sharpbeam.documents.transfer import transfer
from sharpbeam.errors import InputError, OutputError
from sharpbeam.models.interface import Attending
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.storage.atomic import write_bytes
from sharpbeam.text.flags import Flag
from sharpbeam.text.glossary import Glossary, Terms
from sharpbeam.text.lines import read_whole

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from sharpbeam.options.keywords import DecodeKeywords


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a document."""

    source: str
    text: str  # its translation, without markup
    flags: tuple[Flag, ...] = ()  # how it is unsound: omission, loop, copy, cut
    repaired: bool = False  # the first translation was unsound; this is a better one
    confidence: float = 1.0  # the share of its words that a reference is expected to have
    words: tuple[Word, ...] = ()  # of the translation; only with `details` of `document_steps`
    source_words: tuple[tuple[int, int], ...] = ()  # their ranges of characters, where there is attention


@dataclass(frozen=True, slots=True)
class DocumentTranslation(Generic[Content]):
    """A translated document."""

    content: Content  # the document, in its format
    sentences: tuple[Sentence, ...]  # in order

    @property
    def flagged(self) -> tuple[Sentence, ...]:
        """Sentences that the guards found unsound, and could not repair."""
        return tuple(sentence for sentence in self.sentences if sentence.flags)


def translate_text(
    translator: Translator,
    text: Content,
    *,
    format: str = "text",
    fields: Sequence[str] = (),
    glossary: Glossary | Terms | None = None,
    documents: DocumentOptions | None = None,
    progress: Callable[[int], None] | None = None,
    options: DecodeOptions | None = None,
    **keywords: Unpack[DecodeKeywords],
) -> DocumentTranslation[Content]:
    """Translate a document given as str, or as the bytes of a file; what comes out is of the same type.

    `format` is one of `format_names()`; `fields` are the keys of JSON (default: all) or the columns of a table that are
    translated. `glossary` and options are those of `Translator.translate`;
    source_language may be given for any model: one with a single direction takes it as a hint for splitting sentences.
    Raises InputError for a document that cannot be read as its format.
    """
    document = read_document(text, format, fields)
    languages = {name: keywords.pop(name) for name in ("source_language", "target_language") if name in keywords}  # type: ignore[misc]
    tags = translator.loaded.language_tags
    if tags.tokens:
        keywords.update(languages)  # type: ignore[typeddict-item]
    wanted = documents or DocumentOptions()
    chosen = (options or translator.defaults).changed(**keywords)
    if wanted.guards:
        chosen = chosen.changed(return_scores=True)  # they look at them
    language = str(languages.get("source_language", "")) or chosen.languages.source_language or tags.source
    target = str(languages.get("target_language", "")) or chosen.languages.target_language or tags.target
    attends = isinstance(translator.loaded.model.open(), Attending)
    terms = Glossary.of(glossary)
    spelling: Any = {"target": target, "rarity": word_rarity(translator.loaded.source)}
    steps = document_steps(document, wanted, language, attends, terms, **spelling)
    return run_steps(steps, translator, chosen, progress, terms)


def translate_document(
    translator: Translator,
    source: str | Path,
    output: str | Path,
    *,
    format: str = "auto",
    fields: Sequence[str] = (),
    glossary: Glossary | Terms | None = None,
    documents: DocumentOptions | None = None,
    progress: Callable[[int], None] | None = None,
    options: DecodeOptions | None = None,
    **keywords: Unpack[DecodeKeywords],
) -> DocumentTranslation[bytes]:
    """Translate the file `source` into the file `output`, which appears when it is complete.

    The format is that of the suffix of `source`, unless `format` names one. Otherwise as `translate_text`; raises
    OutputError if `output` cannot be written, or is the source itself.
    """
    path = Path(source)
    if path.exists() and Path(output).exists() and path.samefile(output):
        raise OutputError(f"{output} is the document itself, which would be lost; write to another file.")
    name = format_of(path) if format == "auto" else format
    try:
        content = read_whole(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}.") from error
    try:
        done = translate_text(
            translator,
            content,
            format=name,
            fields=fields,
            glossary=glossary,
            documents=documents,
            progress=progress,
            options=options,
            **keywords,
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    try:
        write_bytes(Path(output), done.content)
    except OSError as error:
        raise OutputError(f"cannot write {output}: {error.strerror or error}.") from error
    return done


def document_steps(
    document: Document[Content],
    options: DocumentOptions,
    language: str = "",
    attends: bool = True,
    glossary: Glossary | None = None,
    confidence: bool = True,
    details: bool = False,
    target: str = "",
    rarity: Callable[[str], float] = len,
) -> Steps[DocumentTranslation[Content]]:
    """The jobs of a document, at most `options.at_once` at a time; returns the translated document.

    `language` is that of the source, for splitting sentences; a page that says that it is in it says afterwards that it
    is in `target`. Without attention (`attends`) markup is moved by the order of words, and omissions are not seen.
    The jobs are decoded with `glossary`; a term that is not in a translation takes the place of what attended to it.
    Without `confidence` that of sentences is 1; `details` give them their words. `rarity` is that of the spelling of a
    word, for text in capitals.
    """
    contract = Contract(language, target, attends, attention=True, rarity=rarity)
    if target and (relabel := getattr(document, "relabel", None)):  # HTML
        relabel(language, target)
    segments, parts, sentences = document.segments, list[list[Part]](), list[Sentence]()
    ranges = [sentence_ranges(segment, options, language) for segment in segments]
    first = 0
    while first < len(ranges):
        last, count = first, 0
        while last < len(ranges) and (last == first or count + len(ranges[last]) <= options.at_once):
            count += len(ranges[last])
            last += 1
        group = list(zip(segments[first:last], ranges[first:last], strict=True))
        fixed: dict[str, set[str]] = {}  # of each sentence, parts that stay
        attended: set[str] = set()
        for segment, own in group:
            for start, end in own:
                if is_translatable(text := segment.text[start:end]):
                    fixed.setdefault(text, set()).update(_fixed(segment, start, end))
                    if attends and (segment.tags or (glossary and glossary.find(text))):
                        attended.add(text)
        decoded = yield from decode_steps(fixed, attended, options.guards, contract)
        for segment, own in group:
            pieces = []
            for start, end in own:
                one = decoded.get(segment.text[start:end]) or kept(segment.text[start:end])
                answers = [with_terms(answer, glossary) if glossary else answer for _, answer in one.parts]
                places = [place for place, _ in one.parts]
                pieces += [Piece(start + a, start + b, answer) for (a, b), answer in zip(places, answers, strict=True)]
                sentences.append(_sentence(segment.text[start:end], one, confidence, details))
            parts.append(transfer(segment, joined(segment, pieces)))
        first = last
    return DocumentTranslation(document.write(parts), tuple(sentences))


def _fixed(segment: Segment, start: int, end: int) -> Iterator[str]:
    """The texts in a range of a segment that are not translated."""
    for tag in segment.tags:
        if tag.fixed and start <= tag.start and tag.end <= end:
            yield segment.text[tag.start : tag.end]


def _sentence(source: str, decoded: Decoded, confident: bool, details: bool) -> Sentence:
    pieces = [Piece(*place, answer) for place, answer in decoded.parts]
    line = joined_line(source, pieces, 0.0)
    words, source_words = aligned_words(source, line) if details else ([], [])
    if confident and not details:
        words = word_confidences(line.hypotheses[0])
    facts = decoded.verdict.flags, decoded.repaired, mean_confidence(words)
    return Sentence(source, line.text, *facts, *((tuple(words), tuple(source_words)) if details else ()))
