"""Cube pruning (CUBE section 4): merging rate and BLEU against time per word, for beams of 1 to 40 and six settings.

The settings are the paper's: beam search (NBS), exact (NCP) and approximate cube pruning (ACP), each without (-SN) and
with self-normalisation (+SN: a model trained for it, and no softmax); and next to them approximate pruning by the
likeness of hidden vectors. One thread, batches as `translate` makes them. The curves are timed once a setting; the
claim, ACP+SN against NBS+SN at beam 30, in turns. Before any time is printed the answers are checked: beam 1 says the
same in all settings of one model, and NCP's scores are forced scores. A setting that the same commit has recorded
already is not measured again.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any

import matplotlib
import typer

from bench.flags import Data, Rounds, Sentences
from bench.harness import record
from bench.harness.interleave import interleave
from bench.harness.testset import DATA, german_english
from bench.papers.stream.stream import SETS
from sharpbeam import Translator
from sharpbeam.decoding.results import Translation
from sharpbeam.report.quality import quality

PLAIN, SELF_NORMALISED = "runs/de-en-tuned/best", "runs/de-en-sn/best"  # recipes of these names
BEAMS = (1, 2, 3, 4, 8, 10, 15, 18, 20, 30, 40)  # the paper's
CLAIM_BEAM = 30
Options = dict[str, Any]


class WrongAnswerError(Exception):
    """A setting does not say what it should, so its time means nothing."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """A way to decode."""

    name: str
    normalised: bool  # False: the self-normalised model, without a softmax
    options: Options

    def choices(self, beam: int) -> Options:
        """The options of a translation."""
        return self.options | {"beam_size": beam, "normalise": self.normalised, "return_scores": True}


def settings() -> list[Setting]:
    """The paper's six; approximate pruning by likeness; and beams of variable width (STREAM-1), without and with it."""
    kinds: dict[str, Options] = {
        "NBS": {},
        "NCP": {"cube_pruning": "exact"},
        "ACP": {"cube_pruning": "approximate"},
    }
    six = [
        Setting(f"{name}{'-' if normalised else '+'}SN", normalised, options)
        for normalised in (True, False)
        for name, options in kinds.items()
    ]
    likeness: Options = {"cube_pruning": "approximate", "merge_by": "likeness"}
    both: Options = {"cube_pruning": "approximate", "merge_by": "both"}
    return [
        *six,
        Setting("likeness .95 +SN", False, likeness | {"merge_threshold": 0.95}),
        Setting("likeness .9 +SN", False, likeness | {"merge_threshold": 0.9}),
        Setting("word, then likeness .9 +SN", False, both | {"merge_threshold": 0.9}),
        Setting("NBS+SN, margin 3", False, {"max_score_margin": 3.0}),
        Setting("ACP+SN, margin 3", False, kinds["ACP"] | {"max_score_margin": 3.0}),
        Setting("likeness .95 +SN, margin 3", False, likeness | {"merge_threshold": 0.95, "max_score_margin": 3.0}),
    ]


class Bench:
    """Two models of one recipe, and a test set."""

    def __init__(self, plain: str, self_normalised: str, data: str, sentences: int, name: str = "tatoeba") -> None:
        """`sentences` (0 = all) of the test set, at equal distances."""
        self.name = name
        self.sources, self.references = german_english(data, sentences, SETS[name])
        self.words = sum(len(source.split()) for source in self.sources)
        self._translators = {True: Translator(plain), False: Translator(self_normalised)}

    def translate(self, setting: Setting, beam: int) -> list[Translation]:
        """All sentences."""
        return self._translators[setting.normalised].translate(self.sources, **setting.choices(beam))

    def bleu(self, translations: Sequence[Translation]) -> float:
        """Of the best hypotheses."""
        return quality([translation.text for translation in translations], self.references).bleu

    def point(self, setting: Setting, beam: int) -> dict[str, float]:
        """BLEU, time and work of one setting."""
        work = self._translators[setting.normalised].work
        before = dataclasses.replace(work)
        began = time.process_time()
        translations = self.translate(setting, beam)
        seconds = time.process_time() - began
        count = work.since(before)
        return {
            "beam_size": beam,
            "bleu": round(self.bleu(translations), 2),
            "ms_per_word": round(1e3 * seconds / self.words, 4),
            "merging_rate": round(count.merging_rate, 3),
            "rows_per_step": round(count.expansions / count.request_steps, 2),
            "model_rows_per_step": round((count.model_rows or count.expansions) / count.request_steps, 2),
        }

    def check(self, chosen: Sequence[Setting]) -> None:
        """Raise WrongAnswerError unless beam 1 is greedy in all settings, and exact scores are forced ones."""
        for normalised, translator in self._translators.items():
            mine = [setting for setting in chosen if setting.normalised == normalised]
            for setting in mine:
                if self.translate(setting, 1) != self.translate(mine[0], 1):
                    raise WrongAnswerError(f"{setting.name} with beam 1 is not {mine[0].name} with beam 1")
            for setting in mine:
                if setting.options.get("cube_pruning") == "exact":
                    some = translator.translate(self.sources[:20], **setting.choices(5))
                    texts = [translation.text for translation in some]
                    forced = translator.score(self.sources[:20], texts, normalise=normalised)
                    same = [(a, b) for a, b in zip(some, forced, strict=True) if a.tokens == b.tokens]  # cut alike
                    if not same or any(a.token_scores != b.token_scores for a, b in same):
                        raise WrongAnswerError(f"{setting.name}: scores are not the forced ones")


def curves(bench: Bench, beams: Sequence[int], model_names: tuple[str, str]) -> list[dict[str, Any]]:
    """Measure and record every setting over all beams."""
    chosen = settings()
    bench.check(chosen)
    lines = []
    for setting in chosen:
        options = {"model": model_names[not setting.normalised], "sentences": len(bench.sources)} | setting.options
        options |= {"beams": list(beams), "set": bench.name}
        line = record.find("cube", options)
        if line is None:
            points = [bench.point(setting, beam) for beam in beams]
            line = record.write("cube", {"setting": setting.name, "points": points}, threads=1, options=options)
        lines.append(line)
        print(describe(lines[-1]), flush=True)
    return lines


def headline(bench: Bench, names: Sequence[str], beam: int, rounds: int, model: str) -> dict[str, Any]:
    """Time settings with self-normalisation in turns with NBS+SN at one beam; records ratios and BLEU."""
    by_name = {setting.name: setting for setting in settings()}
    chosen = [by_name[name] for name in ("NBS+SN", *names)]
    bench.check([setting for setting in chosen if not setting.normalised])
    bleu: dict[str, float] = {}

    def contender(setting: Setting) -> Callable[[], list[Translation]]:
        return lambda: bench.translate(setting, beam)

    def note(outputs: dict[str, list[Translation]]) -> None:
        bleu.update({name: round(bench.bleu(found), 2) for name, found in outputs.items()})

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


@cache
def _claimed(data: str, quick: bool) -> dict[str, Any] | None:
    """The settings of the claims in turns with NBS+SN at beam 30; None where the model is not there."""
    if not all((record.ROOT / name / "config.json").is_file() for name in (PLAIN, SELF_NORMALISED)):
        return None
    bench = Bench(PLAIN, SELF_NORMALISED, data, 100 if quick else 500)
    names = ("ACP+SN", "likeness .95 +SN", "NBS+SN, margin 3", "likeness .95 +SN, margin 3")
    return headline(bench, names, CLAIM_BEAM, 1 if quick else 2, SELF_NORMALISED)


def promise(data: str, quick: bool, name: str, target: float = 3.5) -> tuple[bool, str]:
    """Whether a setting is `target` times as fast as NBS+SN at beam 30, with BLEU within 0.1; and figures."""
    line = _claimed(data, quick)
    if line is None:
        return (
            False,
            f"not measured: no {PLAIN} and {SELF_NORMALISED}; train recipes/de-en-tuned.toml and de-en-sn.toml",
        )
    ratio, bleu, baseline = line["contenders"][name]["ratio"], line["bleu"][name], line["bleu"]["NBS+SN"]
    said = f"{name} x{ratio:.2f}, BLEU {bleu:.2f} against {baseline:.2f}"
    return bool(ratio >= target and abs(bleu - baseline) <= 0.1), said


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
    figure.suptitle(f"Cube pruning, German to English, {lines[0]['options']['sentences']} sentences")
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
        f"BLEU {line['bleu'][name]:.2f}"
        for name, timing in line["contenders"].items()
    )


def main(
    data: Data = DATA,
    model: Annotated[str, typer.Option(help="the model trained without self-normalisation")] = PLAIN,
    self_normalised: Annotated[str, typer.Option(help="the one of the same recipe trained with it")] = SELF_NORMALISED,
    sentences: Sentences = 100,
    name: Annotated[str, typer.Option("--set", help=" or ".join(SETS))] = "tatoeba",
    beams: list[int] = list(BEAMS),
    claim_beam: Annotated[int, typer.Option(help="beam size of the claim")] = CLAIM_BEAM,
    rounds: Rounds = 3,
) -> None:
    """Measure, print and record."""
    bench = Bench(model, self_normalised, data, sentences, name)
    lines = curves(bench, beams, (model, self_normalised))
    print(f"drawn: {draw(lines)}")
    others = [setting.name for setting in settings() if not setting.normalised and setting.name != "NBS+SN"]
    print(describe(headline(bench, others, claim_beam, rounds, self_normalised)))
