"""Documents of each format there and back, and random HTML: structure and nesting after translation.

The documents are made (tests/fuzz), and read before and after by the libraries of their formats. Three decoders stand
for any model: one returns the source, one reverses its words, one writes markup. Then a model itself translates some
of the documents. What breaks ends the run with the document; the line says how many were sound.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated

import typer

from bench.flags import Model
from bench.harness import record
from sharpbeam import Translator
from sharpbeam.decoding.results import Translation


def main(
    documents: Annotated[int, typer.Option(help="of each format")] = 200,
    fragments: Annotated[int, typer.Option(help="of HTML, sound and broken")] = 5000,
    translated: Annotated[int, typer.Option(help="of each format, by the model too")] = 10,
    model: Model = "de-en",
) -> None:
    """Check, print and record."""
    from fuzz import document_formats, html_documents

    translator = Translator(model)

    @cache
    def decoded(text: str) -> Translation:
        return translator.translate([text], return_attention=True)[0]

    html_documents.check_all(fragments)
    document_formats.check_all(documents)
    document_formats.check_all(translated, decoders=[decoded])
    formats = list(document_formats.FORMATS)
    figures = {"sound_documents": documents * len(formats), "sound_fragments": fragments, "decoders": 3}
    options = {"what": "round trip", "formats": formats, "documents": documents, "fragments": fragments}
    options |= {"model": model, "translated": translated}
    print(record.write("service", figures, threads=1, options=options))
