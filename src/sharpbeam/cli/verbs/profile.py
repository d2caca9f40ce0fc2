"""`sharpbeam profile`: where the time of decoding goes."""

from __future__ import annotations

import dataclasses
import json
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sharpbeam.cli.flags import with_options
from sharpbeam.errors import InputError, needs_extra
from sharpbeam.jobs.paths import check_home
from sharpbeam.options.decode import (
    DecodeOptions,
    LanguageOptions,
    MachineOptions,
    OutputLayerOptions,
    ScheduleOptions,
    SearchOptions,
)
from sharpbeam.text.lines import check_readable, read_all

if TYPE_CHECKING:
    from rich.table import Table

    from sharpbeam.report.profile import Ceilings, Profile

LARGE_SHARE = 0.2  # of the output layer: another one may be worth a try


@with_options(
    without=("backend", "threads", "isa", "sampling", "return_alternatives", "return_attention", "coverage_penalty")
)
def profile(
    model: Annotated[str, typer.Argument(help="A model folder, or the name of a bundled model; a+b is an ensemble.")],
    files: Annotated[
        list[Path] | None, typer.Argument(help="Text, one sentence a line. Default: random words.")
    ] = None,
    *,
    sentences: Annotated[int, typer.Option(min=1, help="Take so many lines from the text.")] = 50,
    picture: Annotated[Path | None, typer.Option(help="Draw the shares to this file, as PNG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
    search: SearchOptions,
    schedule: ScheduleOptions,
    layer: OutputLayerOptions,
    languages: LanguageOptions,
    machine: MachineOptions,
) -> None:
    """Show where the time of decoding goes, on one thread: the share of each part of a step, and how near its products
    come to what this machine can read and compute.

    The clocks are in a table of kernels of its own, so nothing else pays for them. `--batch-tokens 1` decodes one
    sentence at a time. With SHARPBEAM_ISA another table is looked at. The picture needs Matplotlib.

    Examples:

    * `sharpbeam profile de-en news.de --batch-tokens 1`
    * `sharpbeam profile de-en news.de --output-layer scan --beam-size 6 --picture shares.png`
    * `sharpbeam profile de-en --json | jq .parts`
    """
    from sharpbeam.decoding.loading import find_models
    from sharpbeam.report.profile import ceilings, load_profiled, profile_texts

    check_readable(files or [])
    if picture is not None:
        check_home(picture)
    texts = [line for line in islice(read_all(files), sentences) if line.strip()] if files else None
    if texts == []:
        names = ", ".join(map(str, files or []))
        raise InputError(f"{names}: the first {sentences} lines have no sentence; give text with one sentence a line.")
    choices = DecodeOptions(search, schedule=schedule, output=layer, languages=languages)
    loaded = load_profiled(find_models(model), machine)
    found = profile_texts(loaded, texts, sentences, choices)
    limits = ceilings(found.product_bytes)
    used = loaded.loaded.layer_name(layer), loaded.loaded.machine.compute_type
    if picture is not None:
        with needs_extra("the picture of a profile", "train"):
            from sharpbeam.report.profile_picture import draw_profile

            draw_profile(found, model, picture)
    if as_json:
        print(json.dumps(_record(found, limits, *used)))
    else:
        _print(found, limits, *used)


def _record(found: Profile, limits: Ceilings, output_layer: str, compute_type: str) -> dict[str, Any]:
    shares = {part.name: round(part.seconds / found.seconds, 5) for part in found.parts}
    return dataclasses.asdict(found) | {
        "output_layer": output_layer,
        "compute_type": compute_type,
        "ms_per_step": round(1e3 * found.seconds / found.steps, 5),
        "ms_per_sentence": round(1e3 * found.seconds / found.requests, 5),
        "shares": shares,
        "bookkeeping": round(found.bookkeeping, 5),
        "ceilings": dataclasses.asdict(limits),
    }


def _print(found: Profile, limits: Ceilings, output_layer: str, compute_type: str) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    whatever = ", in float32 whatever the compute type" if output_layer == "exact" else ""
    console.print(
        f"{found.requests} sentences, {found.steps:,} steps of {found.rows / found.steps:.1f} rows, on one thread; "
        f"instructions: {found.isa}\n"
        f"products of the model: {compute_type} (--compute-type); "
        f"output layer: {output_layer} (--output-layer){whatever}\n"
    )
    console.print(_table(found, limits))
    milliseconds = 1e3 * found.seconds
    console.print(
        f"\n{milliseconds / found.steps:.3f} ms a step, {milliseconds / found.requests:.2f} ms a sentence, "
        f"{found.seconds:.2f} s in all; bookkeeping (search, schedule, states, loop) is {found.bookkeeping:.1%} of a "
        "step without encoding"
    )
    share = found.share("output layer")
    if output_layer == "exact" and share >= LARGE_SHARE:
        console.print(
            f"try --output-layer scan: the output layer takes {share:.0%} of the time, and scan finds the same words "
            "from int8 scores"
        )
    console.print("\n" + _legend(limits))


def _table(found: Profile, limits: Ceilings) -> Table:
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("part", no_wrap=True)
    for column in ("share", "us a step", "calls", "KiB", "GB/s", "GMAC/s", "of ceiling"):
        table.add_column(column, justify="right")
    for part in found.parts:
        nanoseconds = max(1e9 * part.seconds, 1e-3)
        figures = [f"{part.seconds / found.seconds:.1%}", f"{1e6 * part.seconds / found.steps:,.1f}"]
        figures.append(f"{part.calls / found.steps:.1f}")
        if part.bytes:
            figures += [f"{part.bytes / found.steps / 1024:,.0f}", f"{part.bytes / nanoseconds:.1f}"]
        if "products" in part.name:
            figures += [f"{part.operations / nanoseconds:.1f}", f"{part.of_ceiling(limits):.0%}"]
        table.add_row(part.name, *figures)
    table.add_row("in all", "100.0%", f"{1e6 * found.seconds / found.steps:,.1f}")
    return table


def _legend(limits: Ceilings) -> str:
    """The meaning of the columns."""
    products = ", ".join(f"{rate:.0f} GMAC/s in {kind}" for kind, rate in limits.gmac_s.items())
    return (
        "share: of all time; us a step, calls, KiB: of one step, with its share of encoding; KiB, GB/s: read and "
        "written; GMAC/s: multiply-adds; of ceiling: how near products come to what one thread of this machine can do, "
        f"the larger of their shares of its bandwidth ({limits.read_gb_s:.1f} GB/s now, for a set as large as theirs, "
        f"{limits.read_mib:.0f} MiB) and of its arithmetic ({products}, from the cache)"
    )
