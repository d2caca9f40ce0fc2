"""`sharpbeam fit LAYER MODEL`: what an output layer needs, written into the model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from sharpbeam.cli.command import VerbGroup, verb
from sharpbeam.cli.fit_progress import shown_progress
from sharpbeam.cli.flags import argument
from sharpbeam.options.decode import MachineOptions
from sharpbeam.options.fit import ScreenOptions, ShortlistOptions
from sharpbeam.options.schema import option

MODEL = argument("A model folder; the result is written into it.")
TEXT = option(
    (),
    "Source text, one sentence a line; .gz too. May be repeated. A multilingual model's with its direction: de-en=FILE",
    metavar="[[SOURCE-]TARGET=]FILE",
)


def _run(layer: str, model: str, **options: Any) -> None:
    from sharpbeam.fit.layer import fit_layer

    with shown_progress() as progress:
        fitted = fit_layer(layer, model, progress=progress, **options)
    print(fitted.summary())


@verb(without=("device",))
def preview(
    model: str = MODEL,
    *,
    text: list[str] = TEXT,
    vectors: int = option(6000, "Hidden vectors to fit to."),
    machine: MachineOptions,
) -> None:
    """Fit the preview: nearly the exact layer's tokens, from a fifth of the bytes of an int8 scan.

    All tokens are previewed by 4-bit codes; those less than 6 standard deviations of their error below the best take
    exact logits. Takes seconds. Without --text, sample sentences of the package are read.

    Examples:

    * `sharpbeam fit preview opus-en-pt`
    * `sharpbeam fit preview opus-en-pt --text news.en.gz`
    """
    _run("preview", model, text=text, vectors=vectors, machine=machine)


@verb(without=("device",))
def screen(
    model: str = MODEL,
    *,
    text: list[str] = TEXT,
    per: Literal["auto", "all", "target", "direction"] = option(
        "auto", "One screen for all, each target language or each direction. auto: by the directions of the text."
    ),
    work: Path | None = option(None, "Keeps the hidden vectors. Default: MODEL.vectors, removed.", metavar="FOLDER"),
    keep_best: bool = option(False, "Write the best one, even below --fidelity."),
    screen: ScreenOptions,
    machine: MachineOptions,
) -> None:
    """Fit the screen: clusters of hidden vectors, and the few tokens that each of them needs.

    The text is decoded with the exact layer (a language model reads it), and the hidden vectors are clustered. Of all
    settings the cheapest is chosen whose fidelity on held-out sentences is at least --fidelity, with 95% confidence.
    Fidelity is the share of steps that the exact layer would have decided in the same way, with normalizers within
    --tolerance. Rows that fail the fallback test are scored over all tokens.

    If no setting reaches the fidelity and reads less than a scan of all tokens, nothing is written and the status is 1.
    An interrupted fit resumes when the same command is given again.

    A multilingual model gets a screen for each direction that there is text of; --per changes that.

    Examples:

    * `sharpbeam fit screen runs/de-en/best --text news.de.gz`
    * `sharpbeam fit screen runs/de-en/best --text news.de --method l2s --clusters 100 --budget 300`
    * `sharpbeam fit screen runs/de-fr-es-en/best --text de-en=news.de --text fr-en=news.fr`
    """
    _run("screen", model, text=text, per=per, work=work, keep_best=keep_best, options=screen, machine=machine)


@verb(without=("device",))
def shortlist(
    model: str = MODEL,
    *,
    pairs: Path | None = option(None, "Sentence pairs, tab-separated, one pair a line; .gz too."),
    source_column: int = option(0, "Column of the source in --pairs, from 0."),
    target_column: int = option(1, "Column of its translation."),
    text: list[str] = TEXT,
    fidelity: float = option(0.0, "Fit the fallback test of the shortlist to --text, to reach this. 0: no test."),
    overwrite: bool = option(False, "Replace the shortlist that the model has."),
    shortlist: ShortlistOptions,
    machine: MachineOptions,
) -> None:
    """Fit the shortlist: the target tokens that each source sentence may be translated with.

    The set of a sentence is the likeliest translations of each of its tokens, found by word alignment (IBM model 1),
    and the most frequent tokens. It does not depend on other sentences. A token that is missing from the set cannot be
    in the translation, unless there is a fallback test.

    With --fidelity and --text, the fallback test of the model's shortlist is fitted: rows that may lack a token that
    matters are scored over all tokens. Nothing is written if held-out text does not reach the fidelity.

    Examples:

    * `sharpbeam fit shortlist runs/de-en/best --pairs train.tsv.gz --source-column 1 --target-column 0`
    * `sharpbeam fit shortlist opus-en-pt --text news.en.gz --fidelity 0.999`
    """
    files = {"pairs": pairs, "source_column": source_column, "target_column": target_column, "text": text}
    choices = {"fidelity": fidelity, "overwrite": overwrite, "options": shortlist}
    _run("shortlist", model, machine=machine, **files, **choices)


fit = VerbGroup.of("Fit an output layer: preview, screen or shortlist.", preview, screen, shortlist)
