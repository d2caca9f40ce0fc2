"""`fit_shortlist`: sentence pairs in, the shortlist of a model folder out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam.decoding.loading import LoadedModel, find_model, load_model
from sharpbeam.errors import InputError, OptionError, OutputError
from sharpbeam.fit.progress import Listener, Reporter
from sharpbeam.fit.shortlist.fallback_test import FallbackTestFit, fit_fallback_test
from sharpbeam.fit.shortlist.fit import coverage, fit_pairs, read_pairs
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.fit import ShortlistOptions
from sharpbeam.options.keywords import ShortlistKeywords, Unpack
from sharpbeam.options.schema import changed, require
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.storage.artifacts import present_artifacts
from sharpbeam.text.lines import check_readable
from sharpbeam.text.pairs import column_pairs

ENOUGH = 0.95  # share of held-out target tokens: Firefox's shortlists cover more
LEAST_KNOWN = 0.1  # share of the source tokens that must occur in the pairs


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
    text: str | Path | Sequence[str | Path] = (),
    source_column: int = 0,
    target_column: int = 1,
    overwrite: bool = False,
    fidelity: float = 0.0,
    options: ShortlistOptions | None = None,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    progress: Listener | None = None,
    **keywords: Unpack[ShortlistKeywords],
) -> ShortlistFit | FallbackTestFit:
    """Fit the shortlist of a translation model: the target tokens that each source sentence may be translated with.

    The set of a sentence is the likeliest translations of each of its tokens, found by word alignment (IBM model 1),
    and the most frequent tokens. Each sentence has its own set, so its translation does not depend on its neighbors.
    What a set lacks cannot be in the translation.

    `model` is a model folder, which the shortlist is written to. `pairs` is a file of tab-separated sentence pairs (.gz
    too) with `source_column` and `target_column` counted from 0. `overwrite` replaces a shortlist that the model has.
    With a `fidelity`, the fallback test of the new shortlist, or of the one that the model has, is fitted to `text`
    (`fit_fallback_test`). `progress` is called with reports. The fields of ShortlistOptions may be given by name
    (`translations=50`) and change `options`.

    Raises OptionError for options that do not fit together or the model, InputError for files that cannot be read,
    ModelError for a model that cannot be read, OutputError for a shortlist that is there, and InputError if less than a
    tenth of the source tokens occur in the pairs: then nothing is written.
    """
    options = changed(options or ShortlistOptions(), keywords, "fit_shortlist")
    require(0 <= fidelity < 1, "fidelity", fidelity, "0 or more and below 1")
    require(bool(fidelity) == bool(text), "fidelity", fidelity, "above 0 with text, to measure it on, and 0 without")
    if pairs is None and not fidelity:
        raise OptionError("give pairs, or text with a fidelity.")
    for name, column in (("source_column", source_column), ("target_column", target_column)):
        require(column >= 0, name, column, "0 or more")
    if pairs is None:
        return fit_fallback_test(model, text, fidelity=fidelity, machine=machine, progress=progress)
    path = Path(pairs)
    check_readable([path])
    folder = find_model(str(model))
    if "shortlist" in present_artifacts(folder) and not overwrite:
        raise OutputError(f"{folder} has a shortlist already; give --overwrite to replace it.")
    loaded = load_model(folder, machine)
    shortlist, figures = _align(path, (source_column, target_column), loaded, options, Reporter(progress))
    file = {"name": path.name, "bytes": path.stat().st_size}
    facts = {"from": "pairs", "file": file, "options": asdict(options)} | figures
    loaded.artifacts.save("shortlist", shortlist, facts)
    if fidelity:
        return fit_fallback_test(model, text, fidelity=fidelity, machine=machine, progress=progress)
    return ShortlistFit(folder, shortlist, facts)


def _align(
    path: Path, columns: tuple[int, int], loaded: LoadedModel, options: ShortlistOptions, report: Reporter
) -> tuple[Shortlist, dict[str, Any]]:
    """A shortlist from the sentence pairs of a file, and the facts of how it was made."""
    pairs = dict.fromkeys(column_pairs(path, *columns))
    with report.stage("reading", None, "pairs") as advance:
        fit, held_out = read_pairs(pairs, path, loaded.source, loaded.target, options.max_pairs, advance)
    with report.stage("aligning", options.rounds, "rounds") as advance:
        shortlist = fit_pairs(fit, loaded.source, loaded.target, options, advance)
    known, sources = len(np.unique(np.concatenate(fit.sources))), len(loaded.source)
    if known < LEAST_KNOWN * sources:
        raise InputError(
            f"{path} has {known} of the {sources} source tokens; a shortlist needs {LEAST_KNOWN:.0%} at least. "
            "Nothing was written; give 100,000 different pairs or so."
        )
    covered = coverage(shortlist, held_out)
    return shortlist, {"fitted_pairs": len(fit), "held_out": asdict(covered) if covered else None}
