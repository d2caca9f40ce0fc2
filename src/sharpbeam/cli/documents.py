"""Documents on the command line: which files are documents, and how one is translated."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from sharpbeam.errors import OptionError, nearest
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.keywords import DecodeKeywords
from sharpbeam.text.lines import is_standard_input

OF_LINES = ("text", "jsonl", "pharaoh")
UNREADABLE = {".pdf": "text or HTML", ".doc": "DOCX", ".rtf": "DOCX", ".ppt": "PPTX", ".xls": "XLSX"}


def document_of(files: Sequence[Path], format: str, lines: bool | None) -> Path | None:
    """The file to translate as a document; None if the files are lines.

    `lines` says which of both. Without it a `format` does, and without one the ending of the file: text is lines.
    Raises OptionError for an unknown format, and for several files of which one is a document.
    """
    if not any(file.suffix for file in files) and format in ("auto", *OF_LINES) and lines is not False:
        return None  # without the time that the formats take to load
    from sharpbeam.documents.formats.registry import FORMATS

    names = ("auto", *dict.fromkeys((*OF_LINES, *FORMATS)))
    if format not in names:
        raise OptionError(f"format is {format!r}; it must be one of {', '.join(names)}.{nearest(format, names)}")
    endings = {ending for name, each in FORMATS.items() if name != "text" for ending in each.suffixes}
    documents = [file for file in files if file.suffix.lower() in endings]
    for file in files if not lines else ():
        if file.suffix.lower() in UNREADABLE:
            raise OptionError(f"{file} cannot be translated: save it as {UNREADABLE[file.suffix.lower()]} first.")
        packed = file.suffix in (".gz", ".zst") and Path(file.stem).suffix.lower() in endings
        if packed and format not in OF_LINES:
            raise OptionError(f"{file} is a packed document: unpack it first, or give --lines for its lines.")
    if lines is None:
        lines = format in OF_LINES if format != "auto" else not documents
    if lines:
        return None
    if len(files) != 1 or is_standard_input(files[0]):
        name = documents[0] if documents else "a document"
        raise OptionError(f"{name} is read from a file of its own: give one FILE, or --lines for lines of all.")
    return files[0]


def run_document(
    model: str,
    source: Path,
    output: Path | None,
    options: DecodeKeywords,
    machine: MachineOptions,
    *,
    glossary: Path | None,
    **how: Any,
) -> None:
    """Translate the document `source` into the file `output`, and say on stderr how many sentences may be wrong."""
    from sharpbeam.api.translator import Translator
    from sharpbeam.documents import read_glossary, translate_document
    from sharpbeam.documents.formats.registry import FORMATS
    from sharpbeam.jobs.progress import progress_bar

    known = any(source.suffix.lower() in kind.suffixes for kind in FORMATS.values())
    how["format"] = "text" if how["format"] == "auto" and not known else how["format"]
    if output is None:
        raise OptionError(f"{source} is a document; give --output FILE, or --lines to translate its lines.")
    hint: Any = {name: dict(options).get(name) for name in ("source_language", "target_language") if name in options}
    options = cast(DecodeKeywords, {name: value for name, value in options.items() if name not in hint})
    terms = read_glossary(glossary, **hint) if glossary else None
    translator = Translator(model, machine=machine, **options)
    with progress_bar("translating", None) as bar:
        outcome = translate_document(translator, source, output, progress=bar, glossary=terms, **hint, **how)
    if outcome.flagged:
        first = outcome.flagged[0]
        count = f"{len(outcome.flagged)} of {len(outcome.sentences)} sentences"
        print(f"sharpbeam: {count} may be wrong; the first ({', '.join(first.flags)}): {first.source}", file=sys.stderr)
