"""Part 4, sharp models on dull hardware: the recurrent engine on one thread, and on two."""

from __future__ import annotations

from benchmarks import latency, table2, workers
from benchmarks.scoreboard.claim import Claim, Settings, Verdict

FASTEST = {"compute_type": "int8", "projection": "scan"}


def models(settings: Settings) -> Verdict:
    """Table 2: every config that was to be trained, and ensembles that are better than their best member."""
    sentences, rounds = (60, 1) if settings.quick else (0, 3)
    line = table2.measure(settings.models, settings.data, FASTEST["compute_type"], sentences, rounds)
    bleu = {name: row["bleu"]["tatoeba"] for name, row in line["rows"].items()}
    better = all(bleu[e] > max(bleu[m] for m in table2.MEMBERS[e]) for e in ("E1", "E2") if e in bleu)
    said = "; ".join(
        f"{name} {bleu[name]:.2f} BLEU, {row['words_per_second']:.0f} words/s" for name, row in line["rows"].items()
    )
    step = line["step_ms"]
    said += f"; a step of S7 x{step['S7'] / step[next(iter(step))]:.1f} of {next(iter(step))}'s"
    lacking = f"; not trained: {', '.join(line['missing'])}" if line["missing"] else ""
    return Verdict(better and not line["missing"], said + lacking)


def two_workers(settings: Settings) -> Verdict:
    """Throughput and memory of two workers against one, in batches and one sentence at a time."""
    sentences, rounds = (200, 3) if settings.quick else (2000, 7)
    lines = [
        workers.measure(settings.model, settings.data, {**FASTEST, "batch_tokens": tokens}, sentences, rounds)
        for tokens in (0, 1)
    ]
    holds = all(line["ratio"] >= 1.9 and line["memory_ratio"] <= 1.15 for line in lines)
    names = ("batches", "one sentence at a time")
    return Verdict(holds, "; ".join(f"{n}: {workers.describe(line)}" for n, line in zip(names, lines, strict=True)))


def sentence_latency(settings: Settings) -> Verdict:
    """How long a sentence takes, and what of its steps is bookkeeping."""
    sentences = 60 if settings.quick else 1000
    line = latency.measure(settings.model, settings.data, FASTEST["compute_type"], FASTEST["projection"], sentences)
    return Verdict(line["bookkeeping"] < 0.05, latency.describe(line))


CLAIMS = [
    Claim("3", "Table 2 of the paper: configs and ensembles", "all trained, ensembles above their members", models),
    Claim("5", "two workers against one", ">= x1.9, memory <= x1.15", two_workers),
    Claim("6", "latency of a sentence by length, and bookkeeping", "bookkeeping < 5% of a step", sentence_latency),
]
