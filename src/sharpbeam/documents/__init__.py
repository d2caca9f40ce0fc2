"""Documents: sentences, markup, formats, guards."""

from sharpbeam.contract.guards import check_translation
from sharpbeam.documents.formats.html import TagOptions, read_tagged
from sharpbeam.documents.formats.registry import format_names, format_of, read_document
from sharpbeam.documents.steps import DocumentTranslation, Sentence, document_steps
from sharpbeam.documents.translation import run_steps, translate_document, translate_text
from sharpbeam.text.glossary import Glossary, read_glossary

__all__ = [
    "DocumentTranslation",
    "Glossary",
    "Sentence",
    "TagOptions",
    "check_translation",
    "document_steps",
    "format_names",
    "format_of",
    "read_document",
    "read_glossary",
    "read_tagged",
    "run_steps",
    "translate_document",
    "translate_text",
]
