"""Merging rates of cube pruning by text, and how near self-normalization brings log Z to 0 (CUBE sections 4.4, 4.5).

Rates, BLEU and rows do not depend on the machine, so that sets are larger than where time is taken: short sentences
(tatoeba), captions (multi30k) and news of 21 words (ntrex). Rows that the model runs are what time is in proportion to,
so that beam search's rows over them are the most that a setting can gain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.harness import record
from bench.harness.seen import hidden_vectors
from bench.papers.cube.bench import Bench, settings
from bench.papers.l2s.perplexity import log_normalizer
from sharpbeam import Translator
from sharpbeam.fit.collect import OutputMatrix


def log_z(model: str, sources: list[str]) -> dict[str, float]:
    """Mean of log Z, of its square and its standard deviation over the steps of greedy translations."""
    translator = Translator(model)
    values = log_normalizer(OutputMatrix(*translator.loaded.model.output()), hidden_vectors(translator, sources))
    wide = values.astype(np.float64)
    return {
        "mean": round(float(wide.mean()), 4),
        "square": round(float((wide**2).mean()), 4),
        "deviation": round(float(wide.std()), 4),
    }


def measure(bench: Bench, names: tuple[str, str], beam: int) -> dict[str, Any]:
    """The six settings on one set at one beam: BLEU, merging rate, rows on the beam and rows run; recorded."""
    options = {"models": list(names), "set": bench.name, "sentences": len(bench.sources), "beam_size": beam}
    if earlier := record.find("cube_merging", options):
        return earlier
    points, outputs = {}, {}
    for setting in settings()[:6]:
        point, outputs[setting.name] = bench.point(setting, beam)
        points[setting.name] = {key: point[key] for key in ("merging_rate", "rows_per_step", "model_rows_per_step")}
    for sign in "-+":  # each against beam search of the same model
        own = {name: answers for name, answers in outputs.items() if name.endswith(f"{sign}SN")}
        for name, score in bench.bleu(own).items():
            points[name] |= score
    words = round(bench.words / len(bench.sources), 1)
    normalizer = {name: log_z(name, bench.sources[:100]) for name in names}
    line = {"points": points, "words": words, "log_z": normalizer}
    return record.write("cube_merging", line, threads=1, options=options)


def describe(line: dict[str, Any]) -> str:
    """The table, for people."""
    options = line["options"]
    rows = [f"{options['set']}, {options['sentences']} sentences of {line['words']} words, beam {options['beam_size']}"]
    for name, p in line["points"].items():
        rows.append(
            f"  {name:<8} BLEU {p['bleu']:.2f} +-{p['half']:.2f} (p {p['p']:.3f}), merging rate "
            f"{p['merging_rate']:.2f}, rows {p['rows_per_step']:.1f}, run {p['model_rows_per_step']:.1f}"
        )
    for name, z in line["log_z"].items():
        rows.append(f"  log Z of {name}: {z['mean']:.2f} on average, deviation {z['deviation']:.2f}")
    return "\n".join(rows)
