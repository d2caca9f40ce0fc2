"""Is the proven layer the exact one? Whole translations, floors of random beams over real vectors, and hard layers.

Sentences are translated greedily and with a beam of 5 by the exact layer in float32 and by the proven one; texts and
scores are compared. A step of a random beam over real hidden vectors violates its floor where a candidate that matters
by exact logits is not among those that the layer returns. Nothing is timed.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.decode.output_layers import read
from bench.flags import Sentences
from bench.harness import record
from sharpbeam import Translator
from sharpbeam.decoding.loading import load_model
from sharpbeam.fit.low_bit_job import collected
from sharpbeam.options.decode import MachineOptions
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.proven import LowBit, ProvenLayer
from sharpbeam.report.previews import report_previews
from sharpbeam.storage.low_bit import read_low_bit
from sharpbeam.types import Floats

BATCH = 64  # sentences
WIDTH = 5  # of the beams
SCORE = 1e-3  # how far two scores may be apart
SPREAD = 8.0  # of the scores of a random beam's rows
TOPS = (1, 5, 10)
BEAMS = 64  # steps that are asked for in one call
HARD = 500  # hidden vectors of each hard kind


def translations(model: Path, texts: list[str], beam_size: int) -> dict[str, Any]:
    """Differences of texts and scores between the proven and the exact layer."""
    translator = Translator(model, machine=MachineOptions(exact=True, threads=1))
    differ, apart, most = 0, 0, 0.0
    for at in range(0, len(texts), BATCH):
        some = texts[at : at + BATCH]
        wanted, found = (
            translator.translate(some, beam_size=beam_size, output_layer=layer, return_scores=True)
            for layer in ("exact", "proven")
        )
        for one, other in zip(wanted, found, strict=True):
            differ += one.text != other.text
            distance = abs(one.score - other.score)
            apart += one.text == other.text and distance > SCORE
            most = max(most, distance if one.text == other.text else 0.0)
    return {"beam_size": beam_size, "differ": differ, "scores_apart": apart, "most_apart": most}


def violations(exact: ExactLayer, proven: ProvenLayer, vectors: Floats, steps: int) -> dict[str, float]:
    """Steps in which a candidate that matters was not returned, and the tokens that each stage left, a row."""
    draw, wrong = np.random.default_rng(0), 0
    best = exact.unnormalised().topk(vectors, 2 * WIDTH)
    counts: dict[str, int] = {}
    for first in range(0, steps, BEAMS):
        size = draw.integers(1, WIDTH + 1, min(BEAMS, steps - first))  # rows of each beam
        request, row = np.arange(len(size)).repeat(size), np.concatenate([np.arange(n) for n in size])
        places = draw.integers(0, len(vectors), len(request))
        drawn = -np.sort(draw.uniform(0, SPREAD, (len(size), WIDTH)), axis=1)
        score, eos = drawn[request, row], int(best.token[places[0], 0]) if draw.uniform() < 0.1 else -1
        log_prob, token, total, found = proven.native.topk_details(
            np.ascontiguousarray(vectors[places]), 2 * WIDTH, True, request.astype(np.int32), score, WIDTH, eos
        )
        wanted = best.token[places]
        totals = score[:, None] + (best.log_prob[places] - total[:, None]).astype(np.float64)
        ranked = np.full((len(size), WIDTH, 2 * WIDTH), -np.inf)
        ranked[request, row] = np.where(wanted != eos, totals, -np.inf)
        bar = np.sort(ranked.reshape(len(size), -1), axis=1)[:, -WIDTH][request]
        returned = ((token[:, None] == wanted[:, :, None]) & np.isfinite(log_prob)[:, None]).any(axis=2)
        # Candidates nearer to the bar than single precision tells apart may go either way.
        missed = ((totals > bar[:, None] + 1e-5) & ~returned).any(axis=1)
        wrong += len(np.unique(request[missed]))
        for name, count in found.items():
            counts[name] = counts.get(name, 0) + count
    rows_in_all = counts.pop("rows")
    return {"steps": steps, "violations": wrong} | {n: round(c / rows_in_all, 3) for n, c in counts.items()}


def hard(weight: Floats, bias: Floats, preview: LowBit, vectors: Floats) -> dict[str, int]:
    """Vectors whose best tokens differ, of layers that are hard on bounds: ties, equal rows, huge norms, zeros."""
    real = vectors[:HARD]
    twins = np.resize(weight[: len(weight) // 4 + 1], weight.shape)
    huge = weight.copy()
    huge[:: max(1, len(weight) // 50)] *= 1000
    kinds = {
        "equal rows": (twins, np.zeros_like(bias), real),
        "all rows equal": (np.resize(weight[:1], weight.shape), np.zeros_like(bias), real[:20]),
        "huge rows": (huge, bias, real),
        "vectors times 1e4": (weight, bias, real * np.float32(1e4)),
        "zero vectors": (weight, bias, np.zeros_like(real[:20])),
        "noise": (weight, bias, np.random.default_rng(1).normal(0, real.std(), real.shape).astype(np.float32)),
    }
    wrong = {}
    for name, (w, b, rows) in kinds.items():
        exact = ExactLayer.build(w, b).unnormalised()
        proven = ProvenLayer.build(w, b, preview).unnormalised()
        wrong[name] = 0
        for k in TOPS:
            wanted, found = exact.topk(rows, k), proven.topk(rows, k)
            wrong[name] += int((wanted.token != found.token).any(axis=1).sum())
    return wrong


def main(
    model: Annotated[Path, typer.Argument(help="a model folder with a low-bit preview (fit-preview)")],
    text: Annotated[str, typer.Option(help="source sentences, one a line, that no fit has seen")],
    name: Annotated[str | None, typer.Option(help="what to call it in the results")] = None,
    column: Annotated[int, typer.Option(help="of files with tabs")] = 0,
    sentences: Sentences = 10_000,
    steps: Annotated[int, typer.Option(help="of random beams")] = 1_000_000,
    vectors: Annotated[int, typer.Option(help="hidden vectors of the text that beams are made of")] = 20_000,
) -> None:
    """Count, print and record."""
    texts = read(text, column, 0, sentences)
    loaded = load_model(model, MachineOptions(exact=True, threads=1))
    weight, bias = loaded.model.output()
    preview = LowBit.from_arrays(read_low_bit(model, weight, bias))
    with tempfile.TemporaryDirectory() as work:
        found = np.ascontiguousarray(collected(loaded, texts, vectors, Path(work) / "vectors")["hidden"])
    exact, proven = ExactLayer.build(weight, bias), ProvenLayer.build(weight, bias, preview)
    figures: dict[str, Any] = {"hard": hard(weight, bias, preview, found)}
    print("vectors that differ, of hard layers:", figures["hard"], flush=True)
    figures["floors"] = violations(exact, proven, found, steps)
    print("floors:", figures["floors"], flush=True)
    layers = [asdict(one) for one in report_previews(loaded, texts, vectors)]
    print("stages:", layers, flush=True)
    options = {"model": name or model.name, "sentences": len(texts)}
    record.write("preview_report", {"layers": layers}, threads=1, options=options)
    figures["translations"] = [translations(model, texts, beam_size) for beam_size in (1, WIDTH)]
    print("translations:", figures["translations"], flush=True)
    record.write("proven_identity", figures, threads=1, options=options | {"steps": steps})
