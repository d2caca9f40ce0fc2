"""`sharpbeam convert`: a model of another program in, a model folder out; and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sharpbeam.errors import ModelError, OutputError
from sharpbeam.jobs.paths import check_folder
from sharpbeam.options.schema import require
from sharpbeam.text.lines import check_readable


def convert(
    origin: Annotated[
        str,
        typer.Argument(
            metavar="FROM", help="A model of another program: a folder, a file, or a name in the Hugging Face hub."
        ),
    ],
    to: Annotated[Path, typer.Argument(metavar="TO", help="The model folder to write.")],
    *,
    source_spm: Annotated[
        Path | None,
        typer.Option(help="The SentencePiece model of the source, or Marian's .yml, where the model comes without."),
    ] = None,
    target_spm: Annotated[Path | None, typer.Option(help="The same of the target; default: the source's.")] = None,
    source_eos: Annotated[
        bool,
        typer.Option("--source-eos", help="The CTranslate2 model was trained with an end (`</s>`) behind each source."),
    ] = False,
    export: Annotated[
        str,
        typer.Option("--to", metavar="sharpbeam|hugging-face", help="hugging-face: FROM is a model folder of ours."),
    ] = "sharpbeam",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace TO if it is there.")] = False,
) -> None:
    """Convert a model of another program to a model folder.

    Read are MarianMT (OPUS-MT), M2M100 and NLLB models of Hugging Face, with weights as safetensors or
    pytorch_model.bin, folders of CTranslate2 (model.bin of any type), models of Marian and of Bergamot, such as
    Firefox's (.npz, or .bin with float32, intgemm8 or intgemm16 weights: transformers, students with an SSRU, and
    recurrent models with GRUs; the folder, the model, or config.yml, which names vocabularies, shortlist and search
    options), and checkpoints of OpenNMT-py 3 (.pt, transformers). Nothing of a file is run: a
    .bin or .pt file that holds more than tensors and plain values is refused, and so is a model with a feature that
    Sharpbeam lacks, by the feature's name.

    With `--to hugging-face` a transformer of ours is written as MarianMT, so that it can be checked with other tools.
    MarianMT has norms behind its parts with an epsilon of 1e-5, none above the uppermost layer, sinusoidal positions,
    attention in the decoder, and SentencePiece on both sides: that is what was converted from a MarianMT, or trained
    so. Others are refused by what MarianMT cannot say: models of Marian itself (an epsilon of 1e-6 and other
    positions), M2M100, NLLB and what `recipes/de-en-transformer.toml` trains (norms in front).

    Examples:

    * `sharpbeam convert Helsinki-NLP/opus-mt-de-en opus-de-en`
    * `sharpbeam convert firefox/enpt en-pt`
    * `sharpbeam convert opus-ct2 opus-de-en --source-spm source.spm --target-spm target.spm`
    * `sharpbeam convert model_step_100000.pt de-en --source-spm source.spm --target-spm target.spm`
    * `sharpbeam convert opus-de-en for-others --to hugging-face`
    * `echo "Guten Morgen." | sharpbeam translate opus-de-en`
    """
    require(export in ("sharpbeam", "hugging-face"), "to", export, "sharpbeam or hugging-face")
    require(bool(origin), "FROM", origin, "a folder, a file, or a name in the Hugging Face hub (owner/name)")
    check_readable([spm for spm in (source_spm, target_spm) if spm is not None])
    _check_place(to, Path(origin), "format_version" if export == "sharpbeam" else "model_type", overwrite)
    given = source_spm, target_spm, source_eos
    if export == "hugging-face":
        _export(origin, to, *given)
    else:
        _import(origin, to, *given)


def _export(origin: str, to: Path, source_spm: Path | None, target_spm: Path | None, source_eos: bool) -> None:
    from sharpbeam.convert.export import export_hugging_face
    from sharpbeam.convert.read import refuse_flags
    from sharpbeam.decoding.loading import find_model

    refuse_flags(source_spm, target_spm, source_eos, "a model folder of Sharpbeam")
    export_hugging_face(find_model(origin), to)
    print(f"{to}: MarianMT of Hugging Face, for transformers' AutoModelForSeq2SeqLM and AutoTokenizer.")


def _import(origin: str, to: Path, source_spm: Path | None, target_spm: Path | None, source_eos: bool) -> None:
    from sharpbeam.convert.read import read_model

    model = read_model(origin, source_spm, target_spm, source_eos)
    model.save(to, to.resolve().name)
    print(f"{to}: {model.summary}.")
    for note in model.notes:
        print(note)


def _check_place(to: Path, origin: Path, kind: str, overwrite: bool) -> None:
    """Raise OutputError where `to` cannot be made, or is there and must not be replaced, before the model is read.

    What may be replaced is what was written before: a folder whose config.json has the fact `kind`.
    """
    if not to.exists():
        check_folder(to.absolute().parent, str(to), "another name")
    elif not _has_fact(to, kind):
        raise OutputError(f"{to} is there and is no model folder of the kind to write, so it stays; give another name.")
    elif origin.resolve().is_relative_to(to.resolve()):
        raise OutputError(f"{to} holds {origin}, which is to be converted; give another name.")
    elif not overwrite:
        raise OutputError(f"{to} is there already; give another name, or --overwrite to replace it.")


def _has_fact(folder: Path, name: str) -> bool:
    from sharpbeam.convert.formats.json import read_json

    try:
        return name in read_json(folder / "config.json")
    except ModelError:
        return False
