"""Vectors of beam search in doses: clusters of a stored sample, in which any number of further ones is counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.harness import record
from bench.harness.cache import COLLECTING, model_name, stamp
from bench.harness.testset import SETS, spread, test_file, test_pairs
from bench.harness.vectors import HELD_OUT, KEPT, K, Layer, Sample
from sharpbeam.cli.fit_progress import shown_progress
from sharpbeam.decoding.loading import load_model
from sharpbeam.fit.collect import Collection, Collector
from sharpbeam.fit.progress import Reporter
from sharpbeam.fit.screen.clusters import Tally
from sharpbeam.fit.screen.counting import Source, count_more
from sharpbeam.options.decode import MachineOptions
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.text.lines import Pair, TextInput

DOSES = (300_000, 1_000_000, 3_000_000, 10_000_000)
STORED = 300_000  # vectors of the sample
BEAM = 5
TEST = "ntrex-en-pt"
COUNTING = (*COLLECTING, "bench/harness/doses.py")

Text = Annotated[str, typer.Option(help="source text, a sentence a line: measure sets of --vectors vectors, of beam 5")]
Amounts = Annotated[list[int], typer.Option(help="vectors that the sets are made of; may be repeated")]
TestPairs = Annotated[str, typer.Option(help=f"with --text: one of {', '.join(SETS)}")]


@dataclass(frozen=True)
class Dosed:
    """A layer whose vectors to fit on are the sample of a text, pairs of the set `test`, and what counts the rest."""

    layer: Layer
    test: str
    pairs: list[Pair]
    source: Source

    def lines(
        self,
        benchmark: str,
        clusters: Sequence[tuple[Tally, dict[str, Any]]],
        vectors: int,
        measure: Callable[[Tally, dict[str, Any]], dict[str, Any]],
    ) -> list[dict[str, Any]]:
        """The recorded line of each of `clusters`, which are without counts, with their options, at `vectors`.

        Counted and measured only if one of them is not recorded for this commit.
        """
        facts = {"model": self.layer.name, "set": self.test, "beam": BEAM, "fitted_on": vectors}
        facts["sentences"] = len(self.pairs)
        lines = [record.find(benchmark, facts | options) for _, options in clusters]
        if all(lines):
            return [line for line in lines if line]
        tallies = [replace(tally) for tally, _ in clusters]
        for tally, part in product(tallies, (self.layer.fit, self.layer.choose)):
            tally.add(part.hidden, part.top)
        with shown_progress() as listen:
            identity = [options for _, options in clusters]
            counted = count_more([self.source], tallies, identity, vectors, Reporter(listen))
        for i, (tally, options) in enumerate(zip(tallies, identity, strict=True)):
            if lines[i] is None:
                figures = {"vectors": counted, **measure(tally, options)}
                lines[i] = record.write(benchmark, figures, threads=1, options=facts | options)
        return [line for line in lines if line]


def collect_dosed(folder: Path, text: str, data: str, test: str, sentences: int) -> Dosed:
    """The sample of the beginning of `text`, and vectors of the set `test`; kept files are used again.

    What is chosen, the best round of learned clusters, is so on the last thirtieth of the sample.
    """
    parts, pairs = load_model(folder, MachineOptions()), list(zip(*test_pairs(data, name=test), strict=True))
    weight, bias = parts.model.output()
    parts = replace(parts, exact=ScanLayer.build(weight, bias))  # the exact top k, sooner
    digest = stamp(folder, Path(text), *(test_file(data, file) for file in SETS[test].files), code=COUNTING)
    name, lines = model_name(folder), TextInput((Path(text),))
    home = KEPT / f"{name}-{digest}-beam-{BEAM}"
    with shown_progress() as listen, Reporter(listen).stage("collecting", STORED, "vectors") as advance:
        collector = Collector(parts, home, BEAM, K)
        sample = collector.collect(lines, {}, STORED, advance)
    held_out = Collector(parts, home / "test", BEAM, K).collect(
        (source for source, _ in pairs), {}, HELD_OUT, lambda _: None
    )
    fit, choose = _sample(sample).split(len(sample) * 29 // 30)
    layer = Layer(name, weight, bias, parts.model.eos_id, fit, choose, _sample(held_out))
    return Dosed(layer, test, spread(pairs, sentences), Source(collector, lines, sample))


def _sample(collection: Collection) -> Sample:
    records = collection.read()
    return Sample(np.ascontiguousarray(records["hidden"]), np.ascontiguousarray(records["token"]))
