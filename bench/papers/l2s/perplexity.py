"""Perplexity of a language model, exact and with a screened output layer (L2S Table 6, section 7.3).

Words of a method's set have exact logits, the others those of a factor of low rank, in NumPy, one row at a time.
Next to it stands our own way: a residual mass for all words outside of the set, and a word that is asked for takes
its exact logit, in the native core. Over the set alone a word outside it has probability zero, so that the perplexity
of any text is infinite: how often that happens is said instead, with the perplexity of the other words.

`python -m bench papers.l2s.perplexity` records the perplexity of each language model that is there, with the exact
layer; `--table lm-ptb-small` the table of that model, on the whole test text.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from math import exp
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bench.baselines.adaptive_softmax import AdaptiveSoftmaxLayer
from bench.baselines.candidates import largest, log_sum_exp
from bench.baselines.fgd import FgdLayer
from bench.baselines.svd_softmax import SvdSoftmaxLayer
from bench.flags import Data, Models
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.prepare import Prepared, prepare
from bench.harness.testset import DATA
from bench.harness.vectors import SPREAD, Layer, read_text
from bench.papers.l2s.subjects import MODELS, SUBJECTS, Subject, find_folder, named, present
from sharpbeam.decoding.loading import load_model
from sharpbeam.fit.collect import OutputMatrix
from sharpbeam.fit.screen.clusters import assign
from sharpbeam.fit.screen.residual_mass import complete, rescale, weigh
from sharpbeam.options.decode import MachineOptions
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.output_layers.screen import Screen, ScreenLayer
from sharpbeam.types import Floats, Ids

WORDS, QUICK_WORDS = 8_000, 2_000
TEXT_WORDS = 100_000  # of the test text
TIMED = 100  # words of one reading of the clock
ROUNDS = 5
PAPER = {  # speed-up and perplexity in L2S Table 6
    "lm-ptb-small": {
        "full": (1, 112.28),
        "SVD-softmax": (0.84, 116.64),
        "adaptive softmax": (1.69, 121.43),
        "FGD": (0.95, 116.49),
        "l2s": (5.69, 115.91),
    },
    "lm-ptb-large": {
        "full": (1, 78.32),
        "SVD-softmax": (0.61, 80.30),
        "adaptive softmax": (1.76, 82.59),
        "FGD": (2.27, 80.47),
        "l2s": (8.11, 80.09),
    },
}
PAPER["lm-ptb-wide"] = PAPER["lm-ptb-large"]
MOST_OVER = 0.005  # that the probabilities of a step may sum to above 1, for normalizers from int8 logits
SUMMED = 3  # steps whose probabilities are summed over all tokens, one forced score each
TAIL_ROWS = 40_000  # vectors that a tail is fitted on
FLOOR = "low rank alone"  # no token has an exact logit: what completing a set costs at least
Candidates = Callable[[Floats], Ids]
Found = tuple[Ids, Floats, Floats]  # tokens [n], their rows of the output matrix [n, D], their bias [n]
LogProb = Callable[[Floats, int], float]


class Completed:
    """Exact logits of the candidates of a row, logits of low rank for all others."""

    def __init__(self, weight: Floats, bias: Floats, rank: int, find: Callable[[Floats], Found]) -> None:
        self._find, self.previews = find, SvdSoftmaxLayer.build(weight, bias, rank=rank, rescored=1).previews

    def log_prob(self, h: Floats, word: int) -> float:
        """Log probability of a word after the hidden vector h [D]."""
        (words, weight, bias), logits = self._find(h), self.previews(h)
        logits[words] = weight @ h + bias
        return float(logits[word] - log_sum_exp(logits))


def gathered(weight: Floats, bias: Floats, candidates: Candidates) -> Callable[[Floats], Found]:
    """Candidates with their rows, which are gathered anew for each hidden vector."""

    def find(h: Floats) -> Found:
        words = candidates(h)
        return words, weight[words], bias[words]

    return find


def of_screen(weight: Floats, bias: Floats, screen: Screen) -> Callable[[Floats], Found]:
    """The set of a row's cluster, whose rows lie side by side, as in `ScreenNumpyLayer`."""
    sets = [(words, weight[words], bias[words]) for words in np.split(screen.token, screen.start[1:-1])]
    return lambda h: sets[int((screen.weight @ h + screen.bias).argmax())]


def whole_text(subject: Subject, folder: Path, data: str, words: int = TEXT_WORDS) -> dict[str, Any]:
    """Perplexity of the test text with the exact layer, ends of lines included, recorded; at most `words` words.

    The text is read at 32 places side by side; the first 16 words of each are only read.
    """
    parts = load_model(folder, MachineOptions(), "language")
    tokens = sum(len(parts.source.encode(line)) + 1 for line in subject.lines(data, "test"))
    hidden, word = read_text(parts, subject.lines(data, "test"), min(words, tokens), spread=1)
    blocks = np.array_split(np.arange(len(word)), max(1, len(word) // 1024))
    cost = -sum(float(parts.exact.log_prob(hidden[at], word[at]).sum(dtype=np.float64)) for at in blocks)
    figures = {"words": len(word), "of": tokens, "perplexity": round(exp(cost / len(word)), 2)}
    return record.write("text_perplexity", figures, threads=1, options={"model": subject.name, "text": subject.test})


def measure(prepared: Prepared, data: str, quick: bool, most: int = 0) -> dict[str, Any]:
    """The table of one language model, recorded; on `most` words in place of the usual number."""
    subject, weight, bias = prepared.subject, prepared.layer.weight, prepared.layer.bias
    parts = load_model(prepared.folder, MachineOptions(), "language")
    count = most or (QUICK_WORDS if quick else WORDS)
    hidden, word = read_text(parts, subject.lines(data, "test"), count, spread=1 if most else SPREAD)
    rows = list(zip(hidden, word.tolist(), strict=True))
    runs, own = contenders(prepared, subject)
    costs = {name: np.array([-run(*row) for row in rows]) for name, run in runs.items()}
    exact = -ExactLayer.build(weight, bias).log_prob(hidden, word)
    timed = rows[:TIMED]
    sums = {name: max(_sum(layer, h) for h in hidden[:SUMMED]) for name, layer in own.items()}

    def check(_: Any) -> None:
        off = float(np.abs(costs["full"] - exact).max())
        assert off < 1e-3, f"the full softmax in NumPy differs from the exact layer by {off}"
        for name, total in sums.items():
            assert total < 1 + MOST_OVER, f"the probabilities of {name} sum to {total:.4f}"

    timings = interleave(
        {name: _all(run, timed) for name, run in runs.items()}, "full", ROUNDS, check, time.process_time
    )
    screens = {
        fit.name: set_only(weight, bias, fit.screen, hidden, word)
        for fit in prepared.fits
        if fit.screen.fallback is None
    }
    figures = {
        "baseline": "full",
        "completed": {
            name: {
                "perplexity": round(exp(float(cost.mean())), 3),
                "us": round(1e6 * timings[name].median_s / TIMED, 1),
                "ratio": round(timings[name].ratio, 2),
            }
            | ({"sum_of_probabilities": round(sums[name], 5)} if name in sums else {})
            for name, cost in costs.items()
        },
        "set_only": screens,
    }
    options = {"model": subject.name, "words": len(word), "rank": subject.rank, "quick": quick}
    return record.write("perplexity", figures, threads=1, options=options)


def contenders(prepared: Prepared, subject: Subject) -> tuple[dict[str, LogProb], dict[str, ScreenLayer]]:
    """Log probability of one token by each method of L2S Table 6 and of the screens, and our own layers among them."""
    layer = prepared.layer
    weight, bias, rank = layer.weight, layer.bias, subject.rank
    few = min(200, len(bias))
    svd = Completed(weight, bias, rank, gathered(weight, bias, lambda h: largest(svd.previews(h), few)))
    adaptive = AdaptiveSoftmaxLayer.build(weight, bias, layer.fit.hidden[:2000], head=len(bias) // 5)
    fgd = FgdLayer.build(weight, bias, links=32, searched=few, kept=few // 4)
    methods = {
        "adaptive softmax": gathered(weight, bias, adaptive.candidates),
        "FGD": gathered(weight, bias, fgd.candidates),
    }
    methods |= {fit.name: of_screen(weight, bias, fit.screen) for fit in prepared.fits if fit.screen.fallback is None}

    def full(h: Floats, word: int) -> float:
        logits = weight @ h + bias
        return float(logits[word] - log_sum_exp(logits))

    completed: dict[str, LogProb] = {
        name: Completed(weight, bias, rank, base).log_prob for name, base in methods.items()
    }
    tails = {
        f"{fit.name} with a tail": _built(layer, with_tail(layer, fit.screen))
        for fit in prepared.fits
        if fit.name == "l2s"
    }
    tails |= {fit.name: _built(layer, fit.screen) for fit in prepared.fits if fit.screen.fallback is not None}
    own = {name: _one_word(layer) for name, layer in tails.items()}
    alone: dict[str, LogProb] = {FLOOR: lambda h, word: float((logits := svd.previews(h))[word] - log_sum_exp(logits))}
    return {"full": full, "SVD-softmax": svd.log_prob} | completed | own | alone, tails


def with_tail(layer: Layer, screen: Screen) -> Screen:
    """`screen` with a residual mass, fitted on vectors of the training text and rescaled on the validation text's."""
    hidden, output = layer.fit.hidden[:TAIL_ROWS], OutputMatrix(layer.weight, layer.bias)
    total = log_normalizer(output, hidden)
    label = assign(hidden, screen.weight, screen.bias)
    mass = weigh(hidden, total, label, len(screen.weight), output)
    fresh = layer.choose.hidden
    return rescale(complete(screen, output, mass, hidden, total), output, fresh, log_normalizer(output, fresh))


def log_normalizer(output: OutputMatrix, hidden: Floats) -> Floats:
    """log Z [n] of the exact layer for `hidden` [n, D]."""
    best = ExactLayer.build(output.weight, output.bias).topk(hidden, 1)
    token = best.token[:, 0]
    logit = np.einsum("nd,nd->n", hidden, output.weight[token]) + output.bias[token]
    return np.asarray(logit - best.log_prob[:, 0], np.float32)


def _built(layer: Layer, screen: Screen) -> ScreenLayer:
    """The native layer; its uncertain rows fall back to our scan."""
    return ScreenLayer.build(layer.weight, layer.bias, screen, ScanLayer.build(layer.weight, layer.bias))


def _one_word(layer: ScreenLayer) -> LogProb:
    return lambda h, word: float(layer.log_prob(h[None], np.array([word], np.int32))[0])


def _sum(layer: ScreenLayer, h: Floats) -> float:
    """The sum of a step's probabilities over all tokens (fact 11 of the design: never above 1)."""
    rows = np.broadcast_to(h, (layer.vocab_size, len(h)))
    every = layer.log_prob(np.ascontiguousarray(rows), np.arange(layer.vocab_size, dtype=np.int32))
    return float(np.exp(every.astype(np.float64)).sum())


def set_only(weight: Floats, bias: Floats, screen: Screen, hidden: Floats, word: Ids) -> dict[str, float]:
    """Share of the words outside their sets, and the perplexity of the others, normalized over the set."""
    log_prob = ScreenLayer.build(weight, bias, screen).log_prob(hidden, word)
    inside = np.isfinite(log_prob)
    return {
        "outside": round(float(1 - inside.mean()), 5),
        "perplexity_inside": round(exp(-float(log_prob[inside].mean())), 3),
    }


def _all(run: LogProb, rows: list[tuple[Floats, int]]) -> Callable[[], float]:
    return lambda: sum(run(h, word) for h, word in rows)


def describe(line: dict[str, Any]) -> str:
    """The table, for people; the paper's figures next to those of its models."""
    paper = PAPER.get(line["options"]["model"], {})
    rows = [
        f"{line['options']['model']}: perplexity of {line['options']['words']} words of the test text (L2S Table 6)"
    ]
    for name, one in line["completed"].items():
        published = "   paper x{} {}".format(*paper[name]) if name in paper else ""
        only = line["set_only"].get(name)
        alone = ""
        if only:
            alone = f"; set only: {only['outside']:.2%} of the words outside, {only['perplexity_inside']} of the others"
        rows.append(f"  {name:<24} {one['perplexity']:8.2f}  x{one['ratio']:.2f}{published}{alone}")
    return "\n".join(rows)


def main(
    data: Data = DATA,
    models: Models = list(MODELS),
    table: Annotated[str, typer.Option(help="Table 6 of this model, with half of the vectors to fit on")] = "",
    words: Annotated[int, typer.Option(help="of the test text in that table; more than there are: all")] = TEXT_WORDS,
) -> None:
    """Measure, print and record."""
    if table:
        subject, folder = named(table, models)
        print(describe(measure(prepare(subject, folder, data, True), data, True, words)))
        return
    for subject in (present(one, models) for one in SUBJECTS if one.columns is None):
        place = find_folder(subject, models)
        if place is None:
            print(f"{subject.name}: no model below {', '.join(models)}")
            continue
        line = whole_text(subject, place, data)
        print(f"{subject.name}: perplexity {line['perplexity']} on {line['words']} of {line['of']} words")
