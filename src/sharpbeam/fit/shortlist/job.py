"""`fit_shortlist`: sentence pairs, or another engine's list, in; the shortlist of a model folder out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.decoding.loading import LoadedModel, find_model, load_model
from sharpbeam.errors import InputError, OptionError, OutputError
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.shortlist.fallback_test_job import FallbackTestFit, fit_fallback_test
from sharpbeam.fit.shortlist.files import read_lex, read_vmap, write_vmap
from sharpbeam.fit.shortlist.fit import coverage, fit_pairs, read_pairs
from sharpbeam.fit.texts import check_text
from sharpbeam.jobs.journal import Journal
from sharpbeam.jobs.translate_file import translate_file
from sharpbeam.options.decode import DecodeOptions, LanguageOptions, MachineOptions, SearchOptions
from sharpbeam.options.fit import ShortlistOptions
from sharpbeam.options.keywords import ShortlistKeywords, Unpack
from sharpbeam.options.schema import changed, require
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.storage.artifacts import present_artifacts
from sharpbeam.storage.atomic import check_folder
from sharpbeam.text.lines import check_readable
from sharpbeam.text.pairs import Pair, column_pairs, file_pairs

ENOUGH = 0.95  # share of held-out target tokens: Firefox's shortlists cover more
LEAST_KNOWN = 0.1  # share of the source tokens that must occur in the pairs
Made = tuple[Shortlist, dict[str, Any]]  # a shortlist, and the facts of how it was made


@dataclass(frozen=True)
class ShortlistFit:
    """The shortlist of a fit."""

    folder: Path  # the model's, which it was written to
    shortlist: Shortlist
    facts: dict[str, Any]  # as in shortlist.json

    def summary(self) -> str:
        """Sizes, and the share of held-out translations that is covered."""
        start = self.shortlist.start
        known = int((start[1:] > start[:-1]).sum())
        text = f"{self.folder}: shortlist with translations of {known} of {len(start) - 1} source tokens, "
        text += f"{len(self.shortlist.always)} tokens in every set."
        if imported := self.facts.get("imported"):
            text += f"\n{imported['unknown']} of {imported['entries']} entries were left out: the model lacks a token."
            if imported["phrases"]:
                text += f" The translations of {imported['phrases']} phrases went to their first tokens."
        if held_out := self.facts.get("held_out"):
            text += (
                f"\nOf {held_out['pairs']} pairs that it was not fitted on, {held_out['words']:.2%} of the target "
                f"tokens are in the set of their sentence, which has {held_out['average_set']:.0f} tokens on average."
            )
            if held_out["words"] < ENOUGH:
                text += " That is too few: translations will change. Fit it on more pairs, 100,000 or so."
        return text


def fit_shortlist(
    model: str | Path,
    *,
    pairs: str | Path | None = None,
    text: str | Path | None = None,
    lex: str | Path | None = None,
    vmap: str | Path | None = None,
    source_column: int = 0,
    target_column: int = 1,
    work: str | Path | None = None,
    overwrite: bool = False,
    fidelity: float = 0.0,
    options: ShortlistOptions | None = None,
    languages: LanguageOptions | None = None,
    machine: MachineOptions | None = None,
    progress: Listener | None = None,
    **keywords: Unpack[ShortlistKeywords],
) -> ShortlistFit | FallbackTestFit:
    """Fit the shortlist of a translation model: the target tokens that each source sentence may be translated with.

    The set of a sentence is the likeliest translations of each of its tokens, found by word alignment (IBM model 1),
    and the most frequent tokens. Each sentence has its own set, so its translation does not depend on its neighbors.
    What a set lacks cannot be in the translation.

    `model` is a model folder, which the shortlist is written to. Exactly one of these is given: `pairs`, a file of
    tab-separated sentence pairs with `source_column` and `target_column` counted from 0; `text`, a file of source
    sentences, which the model translates itself, between `languages` where it is multilingual; `lex`, a lexical table
    of Marian; `vmap`, a vocabulary map of CTranslate2, taken as it is. All may be compressed (.gz). Translations of
    `text` go to the file `work` and stay there; by default it is MODEL.translations next to the model, and removed
    after the fit. An interrupted fit resumes there. `overwrite` replaces a shortlist that the model has. With a
    `fidelity`, the fallback test of the model's shortlist is fitted to `text` (`fit_fallback_test`), after the
    shortlist if another file is given for that. `progress` is called with reports. The fields of ShortlistOptions may
    be given by name (`translations=50`) and change `options`.

    Raises OptionError for options that do not fit together or the model, InputError for files that cannot be read,
    ModelError for a model that cannot be read, OutputError for a place that cannot be written to and a shortlist that
    is there, and InputError if less than a tenth of the source tokens occur in the pairs: then nothing is
    written.
    """
    options, machine = changed(options or ShortlistOptions(), keywords, "fit_shortlist"), machine or MachineOptions()
    languages = languages or LanguageOptions()
    given = {"pairs": pairs, "text": text, "lex": lex, "vmap": vmap}
    files = {name: Path(path) for name, path in given.items() if path is not None}
    tested = files.pop("text", None) if fidelity else None
    require(not fidelity or tested is not None, "fidelity", fidelity, "given with text, to measure it on")
    if tested is not None and not files:
        return fit_fallback_test(model, tested, fidelity=fidelity, machine=machine, progress=progress)
    if len(files) != 1:
        raise OptionError("give one of pairs, text, lex and vmap.")
    [(origin, path)] = files.items()
    check_readable([path])
    if origin == "text":
        check_text(str(path), path)
    for name, code in asdict(languages).items():
        require(origin == "text" or not code, name, code, "left out without text, which it is for")
    for name, column in (("source_column", source_column), ("target_column", target_column)):
        require(column >= 0, name, column, "0 or more")
    folder, report = find_model(str(model)), Reporter(progress)
    if "shortlist" in present_artifacts(folder) and not overwrite:
        raise OutputError(f"{folder} has a shortlist already; give --overwrite to replace it.")
    parts = load_model(folder, machine)
    kept = Path(work) if work else folder.with_name(folder.name + ".translations")
    if origin in ("pairs", "text"):
        columns = source_column, target_column
        own = origin == "text"
        sentences = _translated(folder, kept, path, parts, languages, machine) if own else column_pairs(path, *columns)
        try:
            made, facts = _align(sentences, path, parts, options, report)
        except InputError:  # the next try has another text, and would not resume here
            if own and not work:
                kept.unlink(missing_ok=True)
            raise
    else:
        made, facts = _import(origin, path, parts, options)
    file = {"name": path.name, "bytes": path.stat().st_size}
    facts = {"from": origin, "file": file, "options": asdict(options)} | facts
    parts.artifacts.save("shortlist", made, facts)
    if origin == "text" and not work:
        kept.unlink(missing_ok=True)
    if tested is not None:
        return fit_fallback_test(model, tested, fidelity=fidelity, machine=machine, progress=progress)
    return ShortlistFit(folder, made, facts)


def export_shortlist(model: str | Path, vmap: str | Path) -> int:
    """Write the shortlist in a model folder as a vocabulary map of CTranslate2; return the entries left out.

    These have a token with a space in it, which the format cannot hold. Raises ModelError for a model without a
    shortlist, OutputError for a place that cannot be written to.
    """
    check_export(vmap)
    folder = find_model(str(model))
    parts = load_model(folder, MachineOptions())
    return write_vmap(Path(vmap), parts.artifacts.read("shortlist"), parts.source, parts.target)


def check_export(vmap: str | Path) -> None:
    """Raise OutputError if the vocabulary map cannot be written."""
    path = Path(vmap)
    if path.is_dir():
        raise OutputError(f"vmap {path} is a folder; give the name of a file.")
    check_folder(path.absolute().parent, str(path), "another name")


def _align(
    pairs: Iterable[Pair], origin: Path, parts: LoadedModel, options: ShortlistOptions, report: Reporter
) -> Made:
    """A shortlist from the sentence pairs of the file `origin`."""
    with report.stage("reading", None, "pairs") as advance:
        fit, held_out = read_pairs(dict.fromkeys(pairs), origin, parts.source, parts.target, options.max_pairs, advance)
    with report.stage("aligning", options.rounds, "rounds") as advance:
        shortlist = fit_pairs(fit, parts.source, parts.target, options, advance)
    known, sources = len(np.unique(np.concatenate(fit.sources))), len(parts.source)
    if known < LEAST_KNOWN * sources:
        raise InputError(
            f"{origin} has {known} of the {sources} source tokens; a shortlist needs {LEAST_KNOWN:.0%} at least. "
            "Nothing was written; give 100,000 different pairs or so."
        )
    covered = coverage(shortlist, held_out)
    return shortlist, {"fitted_pairs": len(fit), "held_out": asdict(covered) if covered else None}


def _translated(
    folder: Path, kept: Path, text: Path, parts: LoadedModel, languages: LanguageOptions, machine: MachineOptions
) -> Iterable[Pair]:
    """The lines of `text` with the model's own greedy translations by the exact layer, in the file `kept`."""
    parts.language_tags.direction(languages)  # raises
    options = DecodeOptions(search=SearchOptions(beam_size=1), languages=languages)
    resume = kept.with_name(kept.name + ".part").exists() or Journal.of_finished(kept) is not None
    translate_file(folder, text, kept, resume=resume, restart=not resume, machine=machine, options=options)
    return file_pairs(text, kept)


def _import(origin: str, path: Path, parts: LoadedModel, options: ShortlistOptions) -> Made:
    """A shortlist from another engine's file."""
    if origin == "lex":
        shortlist, imported = read_lex(path, parts.source, parts.target, options)
    else:
        shortlist, imported = read_vmap(path, parts.source, parts.target)
    return shortlist, {"imported": asdict(imported)}
