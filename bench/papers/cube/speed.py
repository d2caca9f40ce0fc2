"""Cube pruning (CUBE section 4): merging rate and BLEU against time per word, for beams of 1 to 40 and six settings.

The settings are the paper's: beam search (NBS), exact (NCP) and approximate cube pruning (ACP), each without (-SN) and
with self-normalization (+SN: a model trained for it, and no softmax); and next to them approximate pruning that merges
by the likeness of hidden vectors as well, and a score margin. One thread, batches as `translate` makes them. The curves
are timed once a setting; the claim, against NBS+SN at beam 30, in turns. Before any time is printed the answers are
checked: beam 1 says the same in all settings of one model, and NCP's scores are forced scores. A setting that the same
commit has recorded already is not measured again.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import matplotlib
import typer

from bench.flags import Data, Rounds, Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, SETS
from bench.papers.cube import merging
from bench.papers.cube.bench import Bench, Setting, settings
from sharpbeam.decoding.results import Translation

PLAIN, SELF_NORMALIZED = "runs/en-pt-gru-plain/best", "runs/en-pt-gru/best"  # the first with no self_normalization
BEAMS = (1, 2, 3, 4, 8, 10, 15, 18, 20, 30, 40)  # the paper's
CLAIM_BEAM = 30


def curves(bench: Bench, beams: Sequence[int], model_names: tuple[str, str]) -> list[dict[str, Any]]:
    """Measure and record every setting over all beams."""
    chosen = settings()
    bench.check(chosen)
    lines = []
    for setting in chosen:
        options = {"model": model_names[not setting.normalized], "sentences": len(bench.sources)} | setting.options
        options |= {"beams": list(beams), "set": bench.name}
        line = record.find("cube", options)
        if line is None:
            measured = [bench.point(setting, beam) for beam in beams]
            points = [point | bench.bleu({"": answers})[""] for point, answers in measured]
            line = record.write("cube", {"setting": setting.name, "points": points}, threads=1, options=options)
        lines.append(line)
        print(describe(lines[-1]), flush=True)
    return lines


def headline(bench: Bench, names: Sequence[str], beam: int, rounds: int, model: str) -> dict[str, Any]:
    """Time settings with self-normalization in turns with NBS+SN at one beam; records ratios and BLEU."""
    by_name = {setting.name: setting for setting in settings()}
    chosen = [by_name[name] for name in ("NBS+SN", *names)]
    bench.check([setting for setting in chosen if not setting.normalized])
    bleu: dict[str, dict[str, float]] = {}

    def contender(setting: Setting) -> Callable[[], list[Translation]]:
        return lambda: bench.translate(setting, beam)

    def note(outputs: dict[str, list[Translation]]) -> None:
        bleu.update(bench.bleu(outputs))

    timings = interleave({s.name: contender(s) for s in chosen}, "NBS+SN", rounds, note, time.process_time)
    figures = {
        "baseline": "NBS+SN",
        "bleu": bleu,
        "contenders": {
            name: {key: round(value, 4) for key, value in dataclasses.asdict(timing).items()}
            for name, timing in timings.items()
        },
    }
    options = {"model": model, "beam_size": beam, "sentences": len(bench.sources), "rounds": rounds, "set": bench.name}
    return record.write("cube-headline", figures, threads=1, options=options)


def draw(lines: Sequence[dict[str, Any]]) -> str:
    """The paper's Figures 3 and 5: merging rate over beam size, and BLEU over time per word."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (rates, scores) = pyplot.subplots(1, 2, figsize=(14, 5.5))
    for line in lines:
        points = line["points"]
        rates.plot(*_columns(points, "beam_size", "merging_rate"), marker="o", markersize=4, label=line["setting"])
        scores.plot(*_columns(points, "ms_per_word", "bleu"), marker="o", markersize=4, label=line["setting"])
    rates.set(xlabel="beam size", ylabel="average merging rate")
    scores.set(xlabel="ms for each source word, one thread", ylabel="BLEU", xscale="log")
    for axis in (rates, scores):
        axis.grid(alpha=0.3)
    scores.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    figure.suptitle(f"Cube pruning, {lines[0]['options']['set']}, {lines[0]['options']['sentences']} sentences")
    figure.tight_layout()
    path = record.RESULTS / "cube.png"
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return str(path)


def _columns(points: Sequence[dict[str, float]], x: str, y: str) -> tuple[list[float], list[float]]:
    return [point[x] for point in points], [point[y] for point in points]


def describe(line: dict[str, Any]) -> str:
    """One measurement, for people."""
    if "points" in line:
        return f"{line['setting']}\n" + "\n".join(
            f"  beam {p['beam_size']:>2}: BLEU {p['bleu']:.2f}, {p['ms_per_word']:.3f} ms/word, merging rate "
            f"{p['merging_rate']:.2f}, rows {p['rows_per_step']:.1f}, of them run {p['model_rows_per_step']:.1f}"
            for p in line["points"]
        )
    return f"beam {line['options']['beam_size']}, {line['options']['sentences']} sentences: " + "; ".join(
        f"{name} x{timing['ratio']:.2f} ({timing['least_ratio']:.2f}-{timing['most_ratio']:.2f}), "
        f"BLEU {line['bleu'][name]['bleu']:.2f} +-{line['bleu'][name]['half']:.2f}"
        for name, timing in line["contenders"].items()
    )


def main(
    data: Data = DATA,
    model: Annotated[str, typer.Option(help="the model trained without self-normalization")] = PLAIN,
    self_normalized: Annotated[str, typer.Option(help="the one of the same recipe trained with it")] = SELF_NORMALIZED,
    part: Annotated[str, typer.Option(help="speed (curves and claim) or merging (rates, and log Z)")] = "speed",
    sentences: Sentences = 100,
    name: Annotated[str, typer.Option("--set", help=" or ".join(SETS))] = "ntrex-en-pt",
    beams: list[int] = list(BEAMS),
    claim_beam: Annotated[int, typer.Option(help="beam size of the claim")] = CLAIM_BEAM,
    rounds: Rounds = 3,
) -> None:
    """Measure, print and record."""
    bench = Bench(model, self_normalized, data, sentences, name)
    if part == "merging":
        print(merging.describe(merging.measure(bench, (model, self_normalized), claim_beam)))
        return
    lines = curves(bench, beams, (model, self_normalized))
    print(f"drawn: {draw(lines)}")
    others = [setting.name for setting in settings() if not setting.normalized and setting.name != "NBS+SN"]
    print(describe(headline(bench, others, claim_beam, rounds, self_normalized)))
