"""`profile`: where the time of decoding goes, and how close matmuls come to the ceilings of the machine."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sharpbeam.decoding.loading import find_models
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.keywords import DecodeKeywords, Unpack
from sharpbeam.options.machine import MachineOptions
from sharpbeam.report.profile import Ceilings, Profile, ceilings, load_profiled, profile_texts

if TYPE_CHECKING:
    from rich.table import Table

LARGE_SHARE = 0.2  # of the output layer: another one may be worth a try


@dataclass(frozen=True)
class ProfileReport:
    """A profile with the ceilings of the machine and the choices that it was taken with."""

    model: str
    profile: Profile
    ceilings: Ceilings
    output_layer: str
    compute_type: str
    beam_size: int

    def record(self) -> dict[str, Any]:
        """The report as JSON."""
        profile = self.profile
        return dataclasses.asdict(profile) | {
            "output_layer": self.output_layer,
            "compute_type": self.compute_type,
            "beam_size": self.beam_size,
            "ms_per_step": round(1e3 * profile.seconds / profile.steps, 5),
            "ms_per_sentence": round(1e3 * profile.seconds / profile.requests, 5),
            "shares": {part.name: round(part.seconds / profile.seconds, 5) for part in profile.parts},
            "bookkeeping": round(profile.bookkeeping, 5),
            "ceilings": dataclasses.asdict(self.ceilings),
        }

    def print(self) -> None:
        """Print the table with its legend."""
        from rich.console import Console

        profile, console = self.profile, Console(highlight=False)
        whatever = ", in float32 whatever the compute type" if self.output_layer == "exact" else ""
        console.print(
            f"{profile.requests} sentences, beam {self.beam_size}, {profile.steps:,} steps of "
            f"{profile.rows / profile.steps:.1f} rows, on one thread; instructions: {profile.isa}\n"
            f"matmuls of the model: {self.compute_type} (--compute-type); "
            f"output layer: {self.output_layer} (--output-layer){whatever}\n"
        )
        console.print(self._table())
        milliseconds = 1e3 * profile.seconds
        console.print(
            f"\n{milliseconds / profile.steps:.3f} ms a step, {milliseconds / profile.requests:.2f} ms a sentence, "
            f"{profile.seconds:.2f} s in all; bookkeeping (search, schedule, states, loop) is "
            f"{profile.bookkeeping:.1%} of a step without encoding"
        )
        share = profile.share("output layer")
        if self.output_layer == "exact" and share >= LARGE_SHARE:
            console.print(
                f"try --output-layer scan: the output layer takes {share:.0%} of the time, and scan finds the same "
                "words from int8 scores"
            )
        console.print("\n" + self._legend())

    def _table(self) -> Table:
        from rich.table import Table

        profile, table = self.profile, Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("part", no_wrap=True)
        for column in ("share", "us a step", "calls", "KiB", "GB/s", "GMAC/s", "of ceiling"):
            table.add_column(column, justify="right")
        for part in profile.parts:
            nanoseconds = max(1e9 * part.seconds, 1e-3)
            figures = [f"{part.seconds / profile.seconds:.1%}", f"{1e6 * part.seconds / profile.steps:,.1f}"]
            figures.append(f"{part.calls / profile.steps:.1f}")
            if part.bytes:
                figures += [f"{part.bytes / profile.steps / 1024:,.0f}", f"{part.bytes / nanoseconds:.1f}"]
            if "products" in part.name:
                figures += [f"{part.operations / nanoseconds:.1f}", f"{part.of_ceiling(self.ceilings):.0%}"]
            table.add_row(part.name, *figures)
        table.add_row("in all", "100.0%", f"{1e6 * profile.seconds / profile.steps:,.1f}")
        return table

    def _legend(self) -> str:
        """The meaning of the columns."""
        limits = self.ceilings
        products = ", ".join(f"{rate:.0f} GMAC/s in {kind}" for kind, rate in limits.gmac_s.items())
        return (
            "share: of all time; us a step, calls, KiB: of one step, with its share of encoding; KiB, GB/s: read and "
            "written; GMAC/s: multiply-adds; of ceiling: how close matmuls come to what one thread of this machine can "
            f"do, the larger of their shares of its bandwidth ({limits.read_gb_s:.1f} GB/s now, for a set as large as "
            f"theirs, {limits.read_mib:.0f} MiB) and of its arithmetic ({products}, from the cache)"
        )


def profile(
    model: str,
    texts: Sequence[str] | None = None,
    *,
    sentences: int = 50,
    options: DecodeOptions | None = None,
    machine: MachineOptions = MachineOptions(),  # noqa: B008 (frozen)
    **keywords: Unpack[DecodeKeywords],
) -> ProfileReport:
    """Decode `texts`, or `sentences` sentences of random words, on one thread, and report where the time goes.

    Options are those of `Translator.translate`, with the model's own defaults. The clocks are in a kernel table of
    their own, so nothing else pays for them. Raises OptionError, ModelError or InputError if decoding would.
    """
    loaded = load_profiled(find_models(model), machine)
    options = (options or loaded.defaults).changed(**keywords)
    measured = profile_texts(loaded, texts, sentences, options)
    used = loaded.loaded.layer_name(options), loaded.loaded.machine.compute_type, options.search.beam_size
    return ProfileReport(model, measured, ceilings(measured.product_bytes), *used)
