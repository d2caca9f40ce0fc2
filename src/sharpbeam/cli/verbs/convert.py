"""`sharpbeam convert`: a model of another program in, a model folder out; or the way back, to Firefox's files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from sharpbeam.cli.command import verb
from sharpbeam.cli.flags import argument
from sharpbeam.errors import OptionError
from sharpbeam.options.schema import option
from sharpbeam.text.lines import TextInput, check_readable


@verb()
def convert(
    origin: str = argument("A model of another program: a folder, a file, or a name of `models get`.", "FROM"),
    to: Path = argument("The folder to write."),
    *,
    format_: Literal["sharpbeam", "firefox"] = option(
        "sharpbeam", "What to write: a model folder; or, of the model folder FROM, files for Firefox and Bergamot."
    ),
    source_spm: Path | None = option(None, "The SentencePiece model of the source, where the model comes without."),
    target_spm: Path | None = option(None, "The same of the target; default: the source's."),
    quantization: Literal["auto", "int8", "float32"] = option(
        "auto", "How matrices are stored; auto: as the model has them."
    ),
    overwrite: bool = option(False, "Replace TO, and all that is in it, if it is there."),
    preview: bool = option(True, "", off="Leave out the fit of the preview (fit preview), which takes seconds."),
    text: Path | None = option(
        None, "Source sentences, one a line, to fit to (default: samples) and to measure int8 on."
    ),
) -> None:
    """Convert a model of another program to a model folder.

    Reads MarianMT (OPUS-MT), M2M100, NLLB, mBART and T5 models of Hugging Face; folders of CTranslate2; and models of
    Marian and of Bergamot, such as Firefox's (.npz, .bin, config.yml or the folder).
    Nothing in a file is run. A model with a feature that Sharpbeam lacks is refused by the feature's name.

    Examples:

    * `sharpbeam convert Helsinki-NLP/opus-mt-de-en opus-de-en`
    * `sharpbeam convert firefox/enpt en-pt`
    * `sharpbeam convert opus-ct2 opus-de-en --source-spm source.spm --target-spm target.spm`
    * `sharpbeam convert runs/en-pt/best firefox/enpt --format firefox`
    """
    check_readable([text] if text else [])
    sources = list(TextInput([text])) if text else []
    files = {"source_spm": source_spm, "target_spm": target_spm}
    if format_ == "firefox":
        from sharpbeam.convert.firefox import write_firefox

        others = files | {"quantization": quantization != "auto", "overwrite": overwrite, "no_preview": not preview}
        if unused := [f"--{name.replace('_', '-')}" for name, given in others.items() if given]:
            raise OptionError(f"{unused[0]} is for model folders; leave it out with --format firefox.")
        print(f"{to}: {write_firefox(origin, to, sources)}.")
        return
    from sharpbeam.cli.fit_progress import shown_progress
    from sharpbeam.convert.conversion import convert_model
    from sharpbeam.fit.new_model import measure_and_fit

    written = convert_model(origin, to, quantization=quantization, overwrite=overwrite, **files)
    print(f"{written.folder}: {written.summary}.")
    for note in written.notes:
        print(note)
    with shown_progress() as progress:
        for line in measure_and_fit(to, [text] if text else [], sources, preview=preview, progress=progress):
            print(line)
    print(f"done; try: echo ... | sharpbeam translate {to}")
