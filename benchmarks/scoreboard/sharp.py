"""Part 4, sharp models on dull hardware: the recurrent engine on one thread, and on two."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks import latency, products, sharp, table2, workers
from benchmarks.scoreboard.claim import Claim, Settings, Verdict

FASTEST = {"compute_type": "int8", "projection": "scan"}


@dataclass(frozen=True)
class Ablation:
    """The factor of all five steps of SHARP together, in one type, on both test sets."""

    compute_type: str
    target: float

    def __call__(self, settings: Settings) -> Verdict:
        sentences, rounds = (20, 1) if settings.quick else (400, 5)
        holds, said = True, []
        for name in sharp.SETS:
            rows = sharp.ablation(settings.model, settings.data, name, self.compute_type, sentences, rounds)["steps"]
            least = min(row["same"] for row in rows.values())
            off = max(abs(row["bleu"] - rows["SHARP-0"]["bleu"]) for row in rows.values())
            holds &= rows["SHARP-5"]["ratio"] >= self.target and least >= 0.999 and off <= 0.02
            factors = ", ".join(f"x{row['ratio']:.2f}" for row in rows.values())
            said.append(f"{name}: {factors} (paper x4.37); {least:.1%} the same, BLEU {off:.2f} off at most")
        return Verdict(holds, "; ".join(said))


def kernels(settings: Settings) -> Verdict:
    """Products of few rows against both ceilings, by the worst shape."""
    shapes, rounds = (products.QUICK_SHAPES, 5) if settings.quick else (products.SHAPES, 30)
    line = products.measure(shapes, rounds)
    reached = {
        kind: (
            products.worst(line, kind, "of_bandwidth", range(1, 3)),
            products.worst(line, kind, "of_arithmetic", range(8, 17)),
        )
        for kind in ("int16", "int8")
    }
    holds = all(read >= 0.8 and computed >= 0.7 for read, computed in reached.values())
    said = "; ".join(
        f"{kind} {read:.0%} of bandwidth at 1-2 rows, {computed:.0%} of arithmetic at 8-16"
        for kind, (read, computed) in reached.items()
    )
    return Verdict(holds, said)


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
    Claim("1a", "five steps of SHARP with int8", ">= x9, 99.9% the same, BLEU within 0.02", Ablation("int8", 9.0)),
    Claim("1b", "five steps of SHARP with int16", ">= x6, 99.9% the same, BLEU within 0.02", Ablation("int16", 6.0)),
    Claim("2", "int16 and int8 products against the ceilings", ">= 80% and >= 70%", kernels),
    Claim("3", "Table 2 of the paper: configs and ensembles", "all trained, ensembles above their members", models),
    Claim("5", "two workers against one", ">= x1.9, memory <= x1.15", two_workers),
    Claim("6", "latency of a sentence by length, and bookkeeping", "bookkeeping < 5% of a step", sentence_latency),
]
