"""`sharpbeam fit-shortlist`: sentence pairs, or another engine's list, in; a shortlist in the model folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sharpbeam.cli.fit_progress import shown_progress
from sharpbeam.cli.flags import with_options
from sharpbeam.errors import OptionError
from sharpbeam.options.decode import LanguageOptions, MachineOptions
from sharpbeam.options.fit import ShortlistOptions


@with_options(without=("device", "backend"))
def fit_shortlist(
    model: Annotated[str, typer.Argument(help="A model folder; the shortlist is written into it.")],
    *,
    pairs: Annotated[Path | None, typer.Option(help="Sentence pairs, tab-separated, one pair a line; .gz too.")] = None,
    source_column: Annotated[int, typer.Option(help="Column of the source in --pairs, from 0.")] = 0,
    target_column: Annotated[int, typer.Option(help="Column of its translation.")] = 1,
    text: Annotated[
        Path | None, typer.Option(help="Source text without translations: the model's own are taken.")
    ] = None,
    lex: Annotated[
        Path | None,
        typer.Option(help="A lexical table of Marian: target source probability, or binary (.bin)."),
    ] = None,
    vmap: Annotated[Path | None, typer.Option(help="A vocabulary map of CTranslate2, taken as it is.")] = None,
    export_vmap: Annotated[
        Path | None, typer.Option(help="Write the shortlist as a vocabulary map of CTranslate2 too.")
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option(
            help="File for the translations of --text, kept. Default: MODEL.translations next to the model, removed "
            "after the fit."
        ),
    ] = None,
    shortlist: ShortlistOptions,
    languages: LanguageOptions,
    machine: MachineOptions,
) -> None:
    """Fit the shortlist of a model: the target tokens that each source sentence may be translated with.

    The set of a sentence is the likeliest translations of each of its tokens, found by word alignment (IBM model 1),
    and the most frequent tokens. Each sentence has its own set, so its translation does not depend on its neighbors.
    What a set lacks cannot be in the translation: compare with --output-layer exact on your text.

    Give one of --pairs, --text, --lex and --vmap; or --export-vmap alone, for the shortlist that the model has.

    A fit that is interrupted while it translates --text resumes when the same command is given again. Languages are
    those of --text, for a multilingual model.

    Examples:

    * `sharpbeam fit-shortlist runs/de-en/best --pairs train.tsv.gz --source-column 1 --target-column 0`
    * `sharpbeam fit-shortlist runs/de-en/best --text news.de.gz`
    * `sharpbeam fit-shortlist runs/de-en/best --lex lex.s2t.gz --translations 50`
    * `sharpbeam fit-shortlist runs/de-en/best --export-vmap vmap.txt`
    * `sharpbeam translate runs/de-en/best book.txt --output-layer shortlist`
    """
    given = [path for path in (pairs, text, lex, vmap) if path is not None]
    if len(given) > 1 or (not given and export_vmap is None):
        raise OptionError("give one of --pairs, --text, --lex and --vmap, or --export-vmap alone.")
    from sharpbeam.fit.shortlist.job import check_export, export_shortlist, fit_shortlist

    if export_vmap is not None:
        check_export(export_vmap)  # before the slow work
    if given:
        with shown_progress() as progress:
            fitted = fit_shortlist(
                model,
                pairs=pairs,
                text=text,
                lex=lex,
                vmap=vmap,
                source_column=source_column,
                target_column=target_column,
                work=work,
                options=shortlist,
                languages=languages,
                machine=machine,
                progress=progress,
            )
        print(fitted.summary())
    if export_vmap is not None:
        lost = export_shortlist(model, export_vmap)
        left_out = f", without {lost} entries that have a space in a token" if lost else ""
        print(f"{export_vmap}: the same for CTranslate2{left_out}.")
