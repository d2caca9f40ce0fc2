"""Documents through a translator: texts and files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sharpbeam.api.base import in_order
from sharpbeam.api.translator import Translator
from sharpbeam.contract.steps import Results, Steps, decode_jobs
from sharpbeam.contract.terms import check_options
from sharpbeam.decoding.inputs import Prefixes
from sharpbeam.documents.formats.interface import Content
from sharpbeam.documents.formats.registry import FORMATS, format_of, read_document
from sharpbeam.documents.steps import DocumentTranslation, document_steps
from sharpbeam.errors import InputError, OutputError, failing
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.documents import DocumentOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.options.schema import require
from sharpbeam.storage.atomic import check_folder, write_bytes
from sharpbeam.text.glossary import Glossary, Terms
from sharpbeam.text.lines import read_whole
from sharpbeam.text.spelling import Spelling

R = TypeVar("R")


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
    translated. `glossary` is that of `Translator.translate`, options are those of `Translator`;
    source_language may be given for any model: one with a single direction takes it as a hint for splitting sentences.
    Raises InputError for a document that cannot be read as its format.
    """
    require(isinstance(translator, Translator), "translator", translator, "a Translator")
    document = read_document(text, format, fields)
    languages = {name: keywords.pop(name) for name in ("source_language", "target_language") if name in keywords}  # type: ignore[misc]
    loaded, how = translator.loaded, documents or DocumentOptions()
    if loaded.language_tags.tokens:
        keywords.update(languages)  # type: ignore[typeddict-item]
    chosen = (options or translator.defaults).changed(**keywords)
    if how.guards:
        chosen = chosen.changed(return_scores=True)  # they look at them
    told = loaded.language_tags.told(replace(chosen.languages, **languages), loaded.folder.absolute().parts)
    if (terms := Glossary.of(glossary)) is not None:
        check_options(chosen)
    more: Any = {"spelling": Spelling(lambda: loaded.source), "again": not chosen.search.sampling}
    steps = document_steps(document, how, told.source, loaded.attends, terms, target=told.target, **more)
    return run_steps(steps, translator, chosen, progress)


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
    place = Path(os.path.realpath(output))  # a link stays one
    if not place.parent.is_dir() or (place.exists() and not place.is_file()):
        raise OutputError(f"cannot write {output}; give the name of a file, in a folder that is there.")
    check_folder(place.parent, str(output), "another one")
    name = format_of(path) if format == "auto" else format
    others = {one for key, kind in FORMATS.items() if key != name for one in kind.suffixes} - {path.suffix.lower()}
    require(place.suffix.lower() not in others, "output", str(output), f"the name of a file of the format {name}")
    more: Any = {"fields": fields, "glossary": glossary, "documents": documents, "progress": progress}
    content = read_whole(path, InputError)
    try:
        done = translate_text(translator, content, format=name, options=options, **more, **keywords)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    with failing(OutputError, f"write {output}"):
        write_bytes(place, done.content)
    return done


def run_steps(
    steps: Steps[R], translator: Translator, options: DecodeOptions, progress: Callable[[int], None] | None = None
) -> R:
    """Decode the jobs of `steps` with a translator; `progress` is called with the number of jobs that just finished."""

    def decode(texts: Sequence[str], changed: DecodeOptions, begin: Prefixes) -> Results:
        return translator.translate_iter(texts, raw=True, options=changed, target_prefix=begin)

    answers: Any = None
    while True:
        try:
            jobs = steps.send(answers)
        except StopIteration as end:
            result: R = end.value
            return result
        answers = in_order(decode_jobs(jobs, decode, options), len(jobs), progress)
