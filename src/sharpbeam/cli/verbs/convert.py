"""`sharpbeam convert`: a model of another program in, a model folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, cast

import typer

from sharpbeam.text.lines import check_readable, read_all


def convert(
    origin: Annotated[
        str,
        typer.Argument(metavar="FROM", help="A model of another program: a folder, a file, or a name of `models get`."),
    ],
    to: Annotated[Path, typer.Argument(metavar="TO", help="The model folder to write.")],
    *,
    source_spm: Annotated[
        Path | None,
        typer.Option(help="The SentencePiece model of the source, where the model comes without."),
    ] = None,
    target_spm: Annotated[Path | None, typer.Option(help="The same of the target; default: the source's.")] = None,
    quantization: Annotated[
        str,
        typer.Option(metavar="auto|int8|float32", help="How matrices are stored; auto: as the model has them."),
    ] = "auto",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace TO, and all that is in it, if it is there.")
    ] = False,
    preview: Annotated[
        bool,
        typer.Option(
            "--preview/--no-preview",
            help="Fit the preview (fit preview), if that takes seconds.",
        ),
    ] = True,
    text: Annotated[
        Path | None,
        typer.Option(help="Source sentences, one a line, to fit to (default: samples) and to measure int8 on."),
    ] = None,
) -> None:
    """Convert a model of another program to a model folder.

    Reads MarianMT (OPUS-MT), M2M100, NLLB, mBART and T5 models of Hugging Face; folders of CTranslate2; and models of
    Marian and of Bergamot, such as Firefox's (.npz, .bin, config.yml or the folder).
    Nothing in a file is run. A model with a feature that Sharpbeam lacks is refused by the feature's name.

    Examples:

    * `sharpbeam convert Helsinki-NLP/opus-mt-de-en opus-de-en`
    * `sharpbeam convert firefox/enpt en-pt`
    * `sharpbeam convert opus-ct2 opus-de-en --source-spm source.spm --target-spm target.spm`
    * `echo "Guten Morgen." | sharpbeam translate opus-de-en`
    """
    check_readable([text] if text else [])
    from sharpbeam.cli.new_model import measure_and_fit
    from sharpbeam.convert.conversion import convert_model

    files = {"source_spm": source_spm, "target_spm": target_spm}
    written = convert_model(origin, to, quantization=cast(Any, quantization), overwrite=overwrite, **files)
    print(f"{written.folder}: {written.summary}.")
    for note in written.notes:
        print(note)
    measure_and_fit(to, [text] if text else [], list(read_all([text])) if text else [], preview=preview)
    print(f"done; try: echo ... | sharpbeam translate {to}")
