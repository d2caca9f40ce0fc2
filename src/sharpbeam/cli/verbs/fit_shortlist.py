"""`sharpbeam fit-shortlist`: sentence pairs, or another engine's list, in; a shortlist in the model folder out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.errors import OptionError, OutputError
from sharpbeam.fit.texts import check_text
from sharpbeam.jobs.journal import OutputFile
from sharpbeam.jobs.paths import check_folder
from sharpbeam.jobs.progress import progress_bar
from sharpbeam.jobs.translate_file import TranslationJob
from sharpbeam.options.decode import DecodeOptions, LanguageOptions, MachineOptions, SearchOptions
from sharpbeam.options.schema import require
from sharpbeam.options.shortlist import ShortlistOptions
from sharpbeam.text.lines import check_readable
from sharpbeam.text.pairs import Pair, column_pairs, file_pairs

if TYPE_CHECKING:
    from sharpbeam.decoding.loading import Parts
    from sharpbeam.types import Shortlist


@with_options(without=("backend",))
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
    shortlist: ShortlistOptions,
    languages: LanguageOptions,
    machine: MachineOptions,
) -> None:
    """Fit the shortlist of a model: from which words a sentence's translation is made, by the words of its source.

    The set of a sentence is the likeliest translations of each of its words, found by word alignment (IBM model 1), and
    the most frequent words. Each sentence has its own set, so its translation does not depend on its neighbours. What
    a set lacks cannot be said: compare with --output-layer exact on your text.

    Give one of --pairs, --text, --lex and --vmap; or --export-vmap alone, for the shortlist that the model has.

    With --text the translations are kept in MODEL.translations, beside the model. Killed while translating, it goes on
    where it was when the same command is given again. Languages are those of --text, for a multilingual model.

    Examples:

    * `sharpbeam fit-shortlist runs/de-en/best --pairs train.tsv.gz --source-column 1 --target-column 0`
    * `sharpbeam fit-shortlist runs/de-en/best --text news.de.gz`
    * `sharpbeam fit-shortlist runs/de-en/best --lex lex.s2t.gz --translations 50`
    * `sharpbeam fit-shortlist runs/de-en/best --export-vmap vmap.txt`
    * `sharpbeam translate runs/de-en/best book.txt --output-layer shortlist`
    """
    origin = _one_of({"pairs": pairs, "text": text, "lex": lex, "vmap": vmap}, export_vmap)
    _check_languages(languages, text)
    for name, column in (("source_column", source_column), ("target_column", target_column)):
        require(column >= 0, name, column, "0 or more")
    from sharpbeam.decoding.loading import find_model, load_parts, shortlist_identity
    from sharpbeam.storage.shortlists import FACTS, read_shortlist, save_shortlist

    folder = find_model(model)
    parts = load_parts(folder, machine)
    identity = shortlist_identity(parts)
    if origin is None:
        found = read_shortlist(folder, identity, len(parts.source), len(parts.target))
    else:
        if pairs is not None:
            found, facts = _fit(column_pairs(pairs, source_column, target_column), pairs, parts, shortlist)
        elif text is not None:
            found, facts = _fit(_own_translations(folder, text, parts, languages, machine), text, parts, shortlist)
        else:
            found, facts = _import(lex, vmap, parts, shortlist)
        save_shortlist(folder, found, identity, origin | {"options": asdict(shortlist)} | facts)
        print(f"{folder / FACTS}: {_summary(found, facts)}")
    if export_vmap is not None:
        _export(export_vmap, found, parts)


def _one_of(given: dict[str, Path | None], export: Path | None) -> dict[str, Any] | None:
    """What the shortlist is made from, as it stands in shortlist.json; None where it is there and only written."""
    named = {name: path for name, path in given.items() if path is not None}
    if len(named) > 1 or (not named and export is None):
        raise OptionError("give one of --pairs, --text, --lex and --vmap, or --export-vmap alone.")
    check_readable(list(named.values()))
    if "text" in named:
        check_text(str(named["text"]), named["text"])
    if export is not None:
        _check_file(export)
    for name, path in named.items():
        return {"from": name, "file": {"name": path.name, "bytes": path.stat().st_size}}
    return None


def _check_file(export: Path) -> None:
    """Raise OutputError where the vocabulary map could not be written, before a shortlist is fitted."""
    if export.is_dir():
        raise OutputError(f"--export-vmap {export} is a folder; give the name of a file.")
    check_folder(export.absolute().parent, str(export), "another name")


def _check_languages(languages: LanguageOptions, text: Path | None) -> None:
    for name, code in asdict(languages).items():
        require(text is not None or not code, name, code, "left out without --text, which it is for")


def _fit(
    pairs: Iterable[Pair], origin: Path, parts: Parts, options: ShortlistOptions
) -> tuple[Shortlist, dict[str, Any]]:
    """A shortlist from the sentence pairs of the file `origin`, and what is known of it."""
    from sharpbeam.fit.shortlist.fit import coverage, fit_shortlist, read_pairs

    with progress_bar("reading", None, unit="pairs") as bar:
        fit, held_out = read_pairs(pairs, origin, parts.source, parts.target, options.max_pairs, bar)
    with progress_bar("aligning", options.rounds, unit="rounds") as bar:
        found = fit_shortlist(fit, parts.source, parts.target, options, bar)
    covered = coverage(found, held_out)
    return found, {"fitted_pairs": len(fit), "held_out": asdict(covered) if covered else None}


def _own_translations(
    folder: Path, text: Path, parts: Parts, languages: LanguageOptions, machine: MachineOptions
) -> Iterable[Pair]:
    """The lines of `text` with the model's own translations by the exact layer, greedily."""
    place = folder.with_name(folder.name + ".translations")
    parts.language_tags.direction(languages)  # raises
    choices = DecodeOptions(search=SearchOptions(beam_size=1), languages=languages)
    job = TranslationJob(str(folder), [text], "text", "strict", None, choices, machine)
    output = OutputFile(place, resume=True, restart=False, inputs=[text])
    failed = True
    try:
        job.run(output)
        failed = False
    finally:
        output.close(failed)
    print(f"The translations are in {place}; they can be removed.", file=sys.stderr)
    return file_pairs(text, place)


def _import(
    lex: Path | None, vmap: Path | None, parts: Parts, options: ShortlistOptions
) -> tuple[Shortlist, dict[str, Any]]:
    """A shortlist from another engine's file, and what is known of it."""
    from sharpbeam.fit.shortlist.files import read_lex, read_vmap

    if lex is not None:
        found, imported = read_lex(lex, parts.source, parts.target, options)
    else:
        assert vmap is not None
        found, imported = read_vmap(vmap, parts.source, parts.target)
    return found, {"imported": asdict(imported)}


def _export(path: Path, shortlist: Shortlist, parts: Parts) -> None:
    """Write the shortlist for CTranslate2."""
    from sharpbeam.fit.shortlist.files import write_vmap

    lost = write_vmap(path, shortlist, parts.source, parts.target)
    left_out = f", without {lost} entries that have a space in a word" if lost else ""
    print(f"{path}: the same for CTranslate2{left_out}.")


def _summary(shortlist: Shortlist, facts: dict[str, Any]) -> str:
    """What was made, for people."""
    lists = len(shortlist.start) - 1
    known = int((shortlist.start[1:] > shortlist.start[:-1]).sum())
    text = f"translations of {known} of {lists} source words, {len(shortlist.always)} words in every set."
    if imported := facts.get("imported"):
        text += f"\n{imported['unknown']} of {imported['entries']} entries were left out: the model lacks their words."
        if imported["phrases"]:
            text += f" The translations of {imported['phrases']} phrases went to their first words."
    if held_out := facts.get("held_out"):
        text += (
            f"\nOf {held_out['pairs']} pairs that it was not fitted on, {held_out['words']:.2%} of the target words "
            f"are in the set of their sentence, which has {held_out['average_set']:.0f} words on average."
        )
    return text
