"""`quickbeam fit-screen`: unlabelled text in, a screen in the model folder out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quickbeam.cli.flags import with_options
from quickbeam.cli.progress import progress_bar
from quickbeam.errors import InputError, OptionError
from quickbeam.options.decode import MachineOptions
from quickbeam.options.screen import ScreenOptions
from quickbeam.text.lines import check_readable, file_digest, read_all

if TYPE_CHECKING:
    from quickbeam.train.screen.collect import Collection
    from quickbeam.train.screen.fit import Fitted
    from quickbeam.types import Floats

PREVIEW_SHARE = 10  # a preview needs only the moments of hidden vectors: those of every tenth sentence


@with_options(without=("backend",))
def fit_screen(
    model: Annotated[str, typer.Argument(help="A model folder; the screen is written into it.")],
    *,
    text: Annotated[
        list[Path],
        typer.Option(help="Source text, or text for a language model, one sentence a line; .gz too. May be repeated."),
    ],
    work: Annotated[
        Path | None, typer.Option(help="Folder for the hidden vectors. Default: MODEL.vectors, beside the model.")
    ] = None,
    keep_best: Annotated[
        bool, typer.Option("--keep-best", help="Write the best screen even if none is good enough.")
    ] = False,
    screen: ScreenOptions,
    machine: MachineOptions,
) -> None:
    """Fit the screen of a model: which few words are scored, so that the model says the same in less time.

    The text is decoded with the exact output layer (a language model reads it), and the hidden vectors are kept in the
    work folder; they are clustered, and each cluster keeps the words that it needs. Of all settings the cheapest is
    chosen whose fidelity, with 95% confidence, is at least --fidelity on sentences that it was not fitted on. Fidelity
    is the share of steps at which all words are right that could change what the search does, and the normalisers that
    they are compared by, within --tolerance; rows that the screen doubts are answered from all words. screen.json says
    what was measured. Where no setting reaches it and reads less than a scan of all words, an old screen stays and the
    status is 1. Killed while collecting, the same command goes on where it was; the work folder can be removed later.
    From the same vectors comes preview.safetensors, which --projection certified needs.

    Examples:

    * `quickbeam fit-screen runs/de-en/best --text news.de.gz`
    * `quickbeam fit-screen runs/de-en/best --text news.de --method l2s --clusters 100 --budget 300`
    * `quickbeam fit-screen runs/lm/best --text train.txt`
    * `quickbeam translate runs/de-en/best book.txt --projection screen --stats`
    """
    _check(text)
    from quickbeam.engine.load import find_model, load_parts
    from quickbeam.models.architectures import architecture_of
    from quickbeam.models.fitted import OUTPUT, output_digest
    from quickbeam.models.folder import read_config
    from quickbeam.models.screen_folder import save_screen
    from quickbeam.train.screen import fit as fitting
    from quickbeam.train.screen.collect import Collector
    from quickbeam.train.screen.output import Output

    folder = find_model(model)
    task = architecture_of(read_config(folder)).task
    parts, screen = load_parts(folder, machine, task), screen.resolved(task == "language")
    weight, bias = parts.model.output()
    place, files = work or folder.with_name(folder.name + ".vectors"), _named(text)
    collector = Collector(parts, place, screen.beam_size, screen.top_k, machine.workers, task == "language")
    with progress_bar("collecting", screen.vectors, unit="vectors") as bar:
        identity = {OUTPUT: output_digest(weight, bias), "text_sha256": [file["sha256"] for file in files]}
        collection = collector.collect(read_all(text), identity, screen.vectors, bar)
    fitted = fitting.fit_screen(collection, Output(weight, bias), parts.model.eos_id, screen, _say)
    _write_preview(collection, folder, weight, bias)
    if not keep_best:
        _check_good(fitted, folder, screen.fidelity, weight.size)
    save_screen(folder, fitted.screen, weight, bias, fitting.facts_of(fitted, screen) | {"text": files})
    print(_summary(fitted, folder, screen.fidelity, weight.size))
    print(f"The hidden vectors are in {place}; another fit can use them, or remove them.", file=sys.stderr)


def _check(text: list[Path]) -> None:
    if not text:
        raise OptionError("--text is missing; give a file of source sentences, one a line.")
    check_readable(text)


def _named(text: list[Path]) -> list[dict[str, Any]]:
    """What tells these files from others."""
    return [{"name": path.name, "bytes": path.stat().st_size, "sha256": file_digest(path)} for path in text]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _write_preview(collection: Collection, folder: Path, weight: Floats, bias: Floats) -> None:
    from quickbeam.models.preview_folder import save_preview
    from quickbeam.projections.certified import Preview

    samples = collection.read(lambda sentence: sentence % PREVIEW_SHARE == 0)["hidden"]
    save_preview(folder, Preview.fit(weight, bias, samples).arrays(), weight, bias)


def _check_good(fitted: Fitted, folder: Path, fidelity: float, scan_cost: int) -> None:
    """Raise InputError where the fidelity is not reached, or only by reading as much as a scan of all words does."""
    found = fitted.setting.measure
    if not fidelity or (fitted.reached and found.cost < scan_cost):
        return
    what = "and reads less than a scan of all words" if fitted.reached else "with confidence"
    raise InputError(
        f"no setting reaches a fidelity of {fidelity} {what}, on {found.sentences} sentences: the best one, "
        f"{fitted.setting.method} with {fitted.setting.clusters} clusters, has a lower bound of {found.bound:.5f} with "
        f"{found.fallback:.1%} of the rows from all words. No screen was written to {folder}; give more --text and "
        "--vectors, ask for less, or take that one with --keep-best."
    )


def _summary(fitted: Fitted, folder: Path, fidelity: float, exact_cost: int) -> str:
    """What was fitted, for people; `exact_cost` is the bytes that an int8 scan reads for a row."""
    setting, found = fitted.setting, fitted.held_out
    text = (
        f"{folder / 'screen.json'}: {setting.method}, {setting.clusters} clusters, {found.average_set:.0f} words on "
        f"average.\nOn {found.sentences} sentences ({found.steps} steps) that it was not fitted on: P@1 "
        f"{found.precision_1:.4f}, P@k {found.precision_k:.4f}, all that matter right in {found.sufficient:.4f} of the "
        f"rows, normalisers in {found.within:.4f}; with {found.fallback:.1%} of the rows from all words, in "
        f"{found.fidelity:.5f} of all steps "
        f"(at least {found.bound:.5f} with 95% confidence). Normalisers are off by {found.normaliser_error:.4f} on "
        f"average, {found.normaliser_error_99:.3f} in the worst hundredth."
    )
    if fidelity and not fitted.reached:
        text += (
            f"\nNo setting reaches a fidelity of {fidelity} with confidence on {setting.measure.sentences} sentences; "
            "this is the best one, as --keep-best asks."
        )
    if setting.measure.cost >= exact_cost:
        text += "\nIt reads no less than an int8 scan of all words: at this fidelity it does not pay for this model."
    return text
