"""A shortlist under its safety net: rows that have all tokens that matter, speed next to the shortlist alone, quality.

`python -m bench decode.shortlist_net MODEL --text FILE` takes a model folder whose net was fitted to other text
(`sharpbeam fit-net`). Rows are those of the exact layer's search; the net's test on them is the calibrated one, which
the core's is held to by a test. Whole translations are timed on one thread, interleaved, after the answers were
compared with the exact layer's.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.decode.output_layers import read
from bench.flags import Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from sharpbeam import Translator
from sharpbeam.decoding.loading import load_model, shortlist_identity
from sharpbeam.fit.shortlist.net import measure_net
from sharpbeam.fit.shortlist.net_job import rows_of
from sharpbeam.options.decode import LanguageOptions, MachineOptions
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.report.quality import quality
from sharpbeam.storage.nets import read_net
from sharpbeam.storage.shortlists import read_shortlist

ALONE, NET = "shortlist", "shortlist-net"
ROUNDS = 5
BATCHES = (1, 32, 64)
VECTORS = 40_000  # of each search


def rows(folder: Path, texts: list[str]) -> dict[str, dict[str, float]]:
    """Shares of the rows of greedy search and of a beam of 5 that have all that matters, and that fall back."""
    loaded = load_model(folder, MachineOptions(threads=1))
    weight, bias = loaded.model.output()
    shortlist = read_shortlist(folder, shortlist_identity(loaded), len(loaded.source), len(bias))
    net = read_net(folder, weight, bias)
    loaded = replace(loaded, exact=ScanLayer.build(weight, bias))
    direction, found = loaded.language_tags.direction(LanguageOptions()), {}
    for beam_size in (1, 5):
        seen = rows_of(loaded, shortlist, texts, beam_size, direction, VECTORS, lambda _: None)
        found[f"beam {beam_size}"] = vars(measure_net(net, seen))
    return found


def speed(translator: Translator, texts: list[str], beam_size: int, batch: int) -> dict[str, dict[str, float]]:
    """Milliseconds for a sentence, times as fast as the shortlist alone, and texts that are not the exact layer's."""

    def run(layer: str) -> list[str]:
        parts = [texts[at : at + batch] for at in range(0, len(texts), batch)]
        found = [translator.translate(part, beam_size=beam_size, output_layer=layer) for part in parts]
        return [one.text for part in found for one in part]

    wanted = run("scan")
    differ: dict[str, int] = {}

    def check(found: dict[str, list[str]]) -> None:
        differ.update({layer: sum(map(str.__ne__, texts, wanted)) for layer, texts in found.items()})
        if differ[NET] > max(differ[ALONE], 2):
            raise AssertionError(f"{differ[NET]} sentences differ with a net, {differ[ALONE]} without")

    layers = (ALONE, NET, "scan", "proven")
    timings = interleave({layer: lambda layer=layer: run(layer) for layer in layers}, ALONE, ROUNDS, check)  # type: ignore[misc]
    return {
        layer: {
            "ms": round(1000 * one.median_s / len(texts), 3),
            **one.ratios(),
            "differ": differ[layer],
        }
        for layer, one in timings.items()
    }


def answers(translator: Translator, texts: list[str], references: list[str], beam_size: int) -> dict[str, Any]:
    """BLEU by layer, and the share of the sentences that are the exact layer's."""
    found = {
        layer: [one.text for one in translator.translate(texts, beam_size=beam_size, output_layer=layer)]
        for layer in ("scan", ALONE, NET)
    }
    return {
        layer: {
            "bleu": round(quality(each, references).bleu, 3),
            "identical": round(sum(map(str.__eq__, each, found["scan"])) / len(texts), 4),
        }
        for layer, each in found.items()
    }


def main(
    model: Annotated[Path, typer.Argument(help="a model folder with a shortlist, a preview and a net")],
    text: Annotated[str, typer.Option(help="source sentences and their translations, with a tab between")],
    name: Annotated[str | None, typer.Option(help="what to call it in the results")] = None,
    sentences: Sentences = 100,
    timed_only: Annotated[bool, typer.Option("--timed-only", help="leave rows and quality out")] = False,
) -> None:
    """Measure, print and record."""
    options = {"model": name or model.name, "compute_type": "int8"}
    translator = Translator(model, compute_type="int8", threads=1)
    if not timed_only:
        texts, references = (read(text, column, 0, 10**9) for column in (0, 1))
        figures = {"rows": rows(model, texts)}
        figures["answers"] = {f"beam {b}": answers(translator, texts, references, b) for b in (1, 5)}
        print(figures, flush=True)
        record.write("shortlist_net_rows", figures, threads=1, options=options | {"sentences": len(texts)})
        return
    texts = read(text, 0, 0, sentences)
    for beam_size in (1, 5):
        for batch in BATCHES:
            layers = speed(translator, texts, beam_size, batch)
            print(beam_size, batch, layers, flush=True)
            asked = options | {"beam_size": beam_size, "batch": batch, "sentences": sentences}
            record.write("shortlist_net", {"layers": layers}, threads=1, options=asked)
