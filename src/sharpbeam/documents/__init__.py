"""Documents: sentences, markup, formats, guards."""

from sharpbeam.documents.formats.registry import format_names, format_of, read_document
from sharpbeam.documents.job import Job, run_steps
from sharpbeam.documents.sentences import split_sentences
from sharpbeam.documents.translation import (
    DocumentTranslation,
    Sentence,
    document_steps,
    translate_document,
    translate_text,
)

__all__ = [
    "DocumentTranslation",
    "Job",
    "Sentence",
    "document_steps",
    "format_names",
    "format_of",
    "read_document",
    "run_steps",
    "split_sentences",
    "translate_document",
    "translate_text",
]
