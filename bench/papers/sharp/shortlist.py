"""A lexical shortlist against the exact layer: sizes of sets, what they lack, BLEU, identical sentences, and time.

First all sentences of the Tatoeba validation set are translated with the exact layer and with the shortlist; on the
way the exact layer's best words are looked up in the set of each row's sentence. With --rounds, whole translations, one
sentence at a time, are timed in turns: exact, scan, and --layers. No time is printed where the BLEU scores lie apart.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.flags import Data
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, NoDataError
from sharpbeam import Translator
from sharpbeam.decoding.loading import shortlist_identity
from sharpbeam.output_layers.fitted import Shortlist
from sharpbeam.output_layers.interface import OutputLayerRun, RowLayer
from sharpbeam.report.quality import quality
from sharpbeam.storage.shortlists import read_shortlist
from sharpbeam.text.pairs import column_pairs
from sharpbeam.types import Floats, Ids, Request, TopK

VALID = "tatoeba/eng-deu.valid.tsv.gz"
K = 5  # how many of the exact layer's best words are looked up, next to the best one
BLEU_DISTANCE = 1.0


class DisagreementError(Exception):
    """A contender translates worse than the exact layer, so its time means nothing."""


class Watched(OutputLayerRun):
    """The exact layer, which looks its best words up in the shortlist: `output_layers.interface.OutputLayer` and
    `OutputLayerRun`.

    For one decoding run at a time.
    """

    def __init__(self, exact: RowLayer, shortlist: Shortlist) -> None:
        self._exact, self._shortlist = exact, shortlist
        self.vocab_size = exact.vocab_size
        self._sets: dict[int, Ids] = {}
        self.sizes: list[int] = []  # of each request's set
        self.rows = self.best = self.all_k = 0  # rows; those whose best word, and whose K best words, are in the set

    def open(self) -> Watched:
        return self

    def admit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            self._sets[request.index] = self._shortlist.words(request.source)
            self.sizes.append(len(self._sets[request.index]))

    def topk(self, hidden: Floats, k: int, request: Ids, floor: Floats | None = None) -> TopK:
        top = self._exact.topk(hidden, max(k, K))
        for row, index in enumerate(request.tolist()):
            inside = np.isin(top.token[row, :K], self._sets[index])
            self.rows += 1
            self.best += bool(inside[0])
            self.all_k += bool(inside.all())
        return TopK(top.log_prob[:, :k], top.token[:, :k])

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        return self._exact.log_prob(hidden, token)

    def evict(self, request: Ids) -> None:
        for index in request.tolist():
            del self._sets[index]


def coverage(translator: Translator, sources: list[str], beam_size: int) -> tuple[dict[str, Any], list[str]]:
    """The share of the exact layer's best words in the sets in its own search, and the exact translations."""
    parts = translator.loaded
    shortlist = read_shortlist(
        translator.loaded.folder, shortlist_identity(parts), len(parts.source), len(parts.target)
    )
    watched = Watched(parts.exact, shortlist)
    translator.loaded = dataclasses.replace(parts, exact=watched)  # type: ignore[arg-type]
    try:
        exact = [t.text for t in translator.translate(sources, beam_size=beam_size)]
    finally:
        translator.loaded = parts
    sizes = np.array(watched.sizes)
    return {
        "average_set": round(float(sizes.mean()), 1),
        "largest_set": int(sizes.max()),
        "rows": watched.rows,
        "best_in_set": round(watched.best / watched.rows, 4),
        f"best_{K}_in_set": round(watched.all_k / watched.rows, 4),
    }, exact


def measure(model: str, data: str, layers: list[str], beam_size: int, sentences: int) -> dict[str, Any]:
    """Translate with the exact layer and each of `layers`; returns and records what differs."""
    sources, references = valid_pairs(data, sentences)
    translator = Translator(model)
    figures, exact = coverage(translator, sources, beam_size)
    figures["bleu"] = {"exact": bleu(exact, references)}
    for layer in layers:
        texts = [t.text for t in translator.translate(sources, beam_size=beam_size, output_layer=layer)]
        same = sum(a == b for a, b in zip(exact, texts, strict=True)) / len(sources)
        figures["bleu"][layer] = bleu(texts, references)
        figures[layer] = {"same_translations": round(same, 4), "bleu_against_exact": bleu(texts, exact)}
    options = {"model": translator.loaded.folder.name, "beam_size": beam_size, "sentences": len(sources)}
    return record.write("shortlist", figures, threads=1, options=options)


def speed(model: str, data: str, layers: list[str], beam_size: int, sentences: int, rounds: int) -> dict[str, Any]:
    """Time whole translations, one sentence at a time; returns and records words/s and ratios to the exact layer."""
    sources, references = valid_pairs(data, sentences)
    translator = Translator(model)

    def contender(output_layer: str) -> Callable[[], list[str]]:
        def run() -> list[str]:
            options: dict[str, Any] = {"beam_size": beam_size, "output_layer": output_layer}
            return [translator.translate([source], **options)[0].text for source in sources]

        return run

    scores: dict[str, float] = {}

    def check(outputs: dict[str, list[str]]) -> None:
        scores.update({name: bleu(texts, references) for name, texts in outputs.items()})
        if max(abs(score - scores["exact"]) for score in scores.values()) > BLEU_DISTANCE:
            raise DisagreementError(f"BLEU differs by more than {BLEU_DISTANCE}: {scores}")

    timings = interleave({name: contender(name) for name in ("exact", "scan", *layers)}, "exact", rounds, check)
    words = sum(len(source.split()) for source in sources)
    figures = {
        "baseline": "exact",
        "bleu": scores,
        "contenders": {
            name: {k: round(v, 4) for k, v in dataclasses.asdict(timing).items()}
            | {"words_per_second": round(words / timing.median_s, 1)}
            for name, timing in timings.items()
        },
    }
    options = {
        "model": translator.loaded.folder.name,
        "beam_size": beam_size,
        "batch": 1,
        "sentences": len(sources),
        "rounds": rounds,
    }
    return record.write("shortlist", figures, threads=1, options=options)


def bleu(texts: list[str], references: list[str]) -> float:
    return round(quality(texts, references).bleu, 2)


def valid_pairs(data: str, sentences: int) -> tuple[list[str], list[str]]:
    """German sources and English references of the validation set; `sentences` (0 = all) at equal distances."""
    path = Path(data) / VALID
    if not path.is_file():
        raise NoDataError(f"no data: {path} is not there; give the folder with --data")
    pairs = list(column_pairs(path, 1, 0))
    count = sentences or len(pairs)
    chosen = [pairs[i * len(pairs) // count] for i in range(count)]
    return [source for source, _ in chosen], [reference for _, reference in chosen]


def main(
    model: Annotated[
        str, typer.Argument(help="a folder of a German-English model with a shortlist (sharpbeam fit-shortlist)")
    ],
    data: Data = DATA,
    layers: Annotated[list[str], typer.Option(help="as --output-layer; some need a screen too")] = ["shortlist"],
    sentences: Annotated[int, typer.Option(help="of the validation set; 0 = all")] = 0,
    rounds: Annotated[int, typer.Option(help="rounds of each contender; 0 = no times")] = 0,
) -> None:
    """Measure, print and record."""
    given = (model, data, layers)
    for beam_size in (1, 5):
        line = measure(*given, beam_size, sentences)
        print(json.dumps(line, indent=2), flush=True)
        if rounds:
            line = speed(*given, beam_size, sentences, rounds)
            print(json.dumps(line, indent=2), flush=True)
