"""`sharpbeam fit-screen`: unlabelled text in, a screen in the model folder out."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.errors import InputError, OptionError
from sharpbeam.fit.texts import HELP
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.screen import ScreenOptions

if TYPE_CHECKING:
    from sharpbeam.fit.screen.fit import Fitted


@with_options(without=("backend",))
def fit_screen(
    model: Annotated[str, typer.Argument(help="A model folder; the screen is written into it.")],
    *,
    text: Annotated[list[str], typer.Option(metavar="[[SOURCE-]TARGET=]FILE", help=HELP)],
    per: Annotated[
        str,
        typer.Option(
            metavar="auto|all|target|direction",
            help="What gets a screen of its own; auto: each direction of a multilingual model, or each target language "
            "where texts come without a source's.",
        ),
    ] = "auto",
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
    From the same vectors comes preview.safetensors, which --output-layer certified needs.

    A multilingual model gets one screen for each direction that there is text of, each fitted on --vectors of its own.
    --per target gives one for each language that is translated into (a text may then be fra=FILE), --per all one for
    everything, from equal parts of the directions. To translate in other directions, choose another output layer: the
    screens are not for them.

    Examples:

    * `sharpbeam fit-screen runs/de-en/best --text news.de.gz`
    * `sharpbeam fit-screen runs/de-en/best --text news.de --method l2s --clusters 100 --budget 300`
    * `sharpbeam fit-screen runs/lm/best --text train.txt`
    * `sharpbeam fit-screen runs/de-fr-es-en/best --text de-en=news.de --text en-de=news.en --text fr-en=news.fr`
    * `sharpbeam translate runs/de-en/best book.txt --output-layer screen --stats`
    """
    if not text:
        raise OptionError("--text is missing; give a file of source sentences, one a line.")
    from sharpbeam.fit.screen.job import ScreenJob

    job = ScreenJob.open(model, text, per, work, screen, machine)
    fitted, scan_cost = job.fit(_say), job.parts.model.output()[0].size
    for scope, found in fitted.items():
        if not keep_best:
            _check_good(found, scope, job.folder, screen.fidelity, scan_cost)
    job.save(fitted)
    for scope, found in fitted.items():
        print(_summary(found, scope, job.folder, screen.fidelity, scan_cost))
    print(f"The hidden vectors are in {job.place}; another fit can use them, or remove them.", file=sys.stderr)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _prefix(scope: str) -> str:
    return f"{scope}: " if scope else ""


def _check_good(fitted: Fitted, scope: str, folder: Path, fidelity: float, scan_cost: int) -> None:
    """Raise InputError where the fidelity is not reached, or only by reading as much as a scan of all words does."""
    found = fitted.setting.measure
    if not fidelity or (fitted.reached and found.cost < scan_cost):
        return
    what = "and reads less than a scan of all words" if fitted.reached else "with confidence"
    raise InputError(
        f"{_prefix(scope)}no setting reaches a fidelity of {fidelity} {what}, on {found.sentences} sentences: the best "
        f"one, {fitted.setting.method} with {fitted.setting.clusters} clusters, has a lower bound of {found.bound:.5f} "
        "with "
        f"{found.fallback:.1%} of the rows from all words. No screen was written to {folder}; give more --text and "
        "--vectors, ask for less, or take that one with --keep-best."
    )


def _summary(fitted: Fitted, scope: str, folder: Path, fidelity: float, exact_cost: int) -> str:
    """What was fitted, for people; `exact_cost` is the bytes that an int8 scan reads for a row."""
    setting, found = fitted.setting, fitted.held_out
    text = (
        f"{folder / 'screen.json'}: {_prefix(scope)}{setting.method}, {setting.clusters} clusters, "
        f"{found.average_set:.0f} words on average.\n"
        f"On {found.sentences} sentences ({found.steps} steps) that it was not fitted on: P@1 "
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
