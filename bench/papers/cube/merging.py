"""Merging rates of cube pruning by text, and how near self-normalisation brings log Z to 0 (CUBE sections 4.4, 4.5).

Rates, BLEU and rows do not depend on the machine, so that sets are larger than where time is taken: short sentences
(tatoeba), captions (multi30k) and news of 25 words (ntrex). Rows that the model runs are what time is in proportion to,
so that beam search's rows over them are the most that a setting can gain.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import typer

from bench.flags import Data, Sentences
from bench.harness import record
from bench.harness.testset import DATA
from bench.papers.cube.speed import CLAIM_BEAM, PLAIN, SELF_NORMALISED, Bench, settings
from bench.papers.l2s.perplexity import log_normalizer
from bench.papers.l2s.speed import hidden_vectors
from sharpbeam import Translator
from sharpbeam.fit.screen.output import Output

TEXTS = ("tatoeba", "multi30k", "ntrex")


def log_z(model: str, sources: list[str]) -> dict[str, float]:
    """Mean of log Z, of its square and its standard deviation over the steps of greedy translations."""
    translator = Translator(model)
    found = log_normalizer(Output(*translator.loaded.model.output()), hidden_vectors(translator, sources))
    wide = found.astype(np.float64)
    return {
        "mean": round(float(wide.mean()), 4),
        "square": round(float((wide**2).mean()), 4),
        "deviation": round(float(wide.std()), 4),
    }


def measure(bench: Bench, names: tuple[str, str], beam: int) -> dict[str, Any]:
    """The six settings on one set at one beam: BLEU, merging rate, rows on the beam and rows run; recorded."""
    options = {"models": list(names), "set": bench.name, "sentences": len(bench.sources), "beam_size": beam}
    if known := record.find("cube_merging", options):
        return known
    points = {}
    for setting in settings()[:6]:
        point = bench.point(setting, beam)
        points[setting.name] = {
            key: point[key] for key in ("bleu", "merging_rate", "rows_per_step", "model_rows_per_step")
        }
    words = round(bench.words / len(bench.sources), 1)
    normaliser = {name: log_z(name, bench.sources[:100]) for name in names}
    line = {"points": points, "words": words, "log_z": normaliser}
    return record.write("cube_merging", line, threads=1, options=options)


def describe(line: dict[str, Any]) -> str:
    """The table, for people."""
    options = line["options"]
    rows = [f"{options['set']}, {options['sentences']} sentences of {line['words']} words, beam {options['beam_size']}"]
    for name, p in line["points"].items():
        rows.append(
            f"  {name:<8} BLEU {p['bleu']:.2f}, merging rate {p['merging_rate']:.2f}, rows {p['rows_per_step']:.1f}, "
            f"run {p['model_rows_per_step']:.1f}"
        )
    for name, z in line["log_z"].items():
        rows.append(f"  log Z of {name}: {z['mean']:.2f} on average, deviation {z['deviation']:.2f}")
    return "\n".join(rows)


def main(
    data: Data = DATA,
    model: Annotated[str, typer.Option(help="the model trained without self-normalisation")] = PLAIN,
    self_normalised: Annotated[str, typer.Option(help="the one of the same recipe trained with it")] = SELF_NORMALISED,
    name: Annotated[list[str], typer.Option("--set", help=" or ".join(TEXTS))] = list(TEXTS),
    sentences: Sentences = 300,
    beam: Annotated[int, typer.Option(help="beam size")] = CLAIM_BEAM,
) -> None:
    """Measure, print and record; what this commit has recorded is not measured again."""
    for one in name:
        bench = Bench(model, self_normalised, data, sentences, one)
        print(describe(measure(bench, (model, self_normalised), beam)), flush=True)
