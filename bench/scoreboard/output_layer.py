"""Part 2, output layer: output layers that are many times faster, and how often they say the same."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import Future, ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

from contract import proven

from bench.harness import record
from bench.harness.precision import Point
from bench.harness.prepare import Prepared, prepare_all
from bench.harness.testset import NoDataError
from bench.harness.vectors import FLOATS, HELD_OUT, LEAST, MOST_TRANSLATED
from bench.papers.l2s import curves, perplexity, screened_search, studies
from bench.papers.l2s.methods import BASELINE, CALL
from bench.papers.l2s.subjects import SUBJECTS, Subject, find_folder, note, present
from bench.scoreboard.claim import Claim, Settings, Verdict
from sharpbeam import _core

SCREENS = ("kmeans", "spherical", "l2s")
SEARCHES = ("Faiss IVF", "ScaNN")
TRUTHS = ("tests/output_layers", "tests/screen")
TRANSLATION = ("en-de-lstm", "de-en")
STUDIED = "lm-ptb-small"
QUICK_MODELS = ("lm-ptb-small", "de-en")


class MissingModelError(NoDataError):
    """A claim is about a model that is not there."""


@cache
def subjects(settings: Settings) -> dict[str, Subject]:
    """All models by name; for one that is not there the one that stands in for it."""
    return {subject.name: present(subject, settings.models) for subject in SUBJECTS}


def measured(settings: Settings) -> list[Subject]:
    """The models that are measured, if they are there."""
    return [s for name, s in subjects(settings).items() if not settings.quick or name in QUICK_MODELS]


def folder_of(subject: Subject, settings: Settings) -> Path:
    """The model's folder; raises MissingModelError."""
    if subject not in measured(settings):
        raise MissingModelError(f"{subject.name} is left to the whole run, without QUICK")
    folder = find_folder(subject, settings.models)
    if folder is None:
        raise MissingModelError(f"missing: no model {subject.name} below {', '.join(settings.models)}")
    return folder


@cache
def all_prepared(settings: Settings) -> dict[str, Prepared]:
    """Every model that is there, with vectors and screens."""
    found = [(subject, find_folder(subject, settings.models)) for subject in measured(settings)]
    there = [(subject, folder) for subject, folder in found if folder is not None]
    if settings.quick:
        print(f"quickly: {', '.join(QUICK_MODELS)} only, half of the vectors, every second setting of a dial")
    least = f"{FLOATS:,} floats and {LEAST:,} vectors at least"
    print(f"capped: {least}, or {MOST_TRANSLATED:,} steps of translation, to fit on; {HELD_OUT:,} held out")
    return {p.subject.name: p for p in prepare_all(there, settings.data, settings.quick)}


@cache
def curve(settings: Settings, name: str) -> dict[str, Any]:
    """All methods on one model; measured once."""
    subject = subjects(settings)[name]
    folder_of(subject, settings)
    return curves.curve(all_prepared(settings)[subject.name], settings.quick)


def table(settings: Settings) -> Verdict:
    """L2S Table 2 for every model that is there."""
    there, missing, incomplete = [], [], []
    for name, subject in subjects(settings).items():
        if subject not in measured(settings) or find_folder(subject, settings.models) is None:
            missing.append(subject.name)
            continue
        line = curve(settings, name)
        print(note(subject) + curves.table(line, subject), flush=True)
        found = {point["method"] for point in line["points"]}
        wanted = {"L2S" if method == "l2s" else method for method in (*SCREENS, *SEARCHES)} | set(curves.OURS)
        wanted |= set(subject.paper.rows if subject.paper else ())
        absent = wanted - {"L2S" if method == "l2s" else method for method in found}
        incomplete += [f"{subject.name} without {', '.join(sorted(absent))}"] if absent else []
        there.append(subject.name)
    figure = f"{', '.join(there)}; missing models: {', '.join(missing) or 'none'}"
    return Verdict(not missing and not incomplete, "; ".join([figure, *incomplete]))


def screened(name: str, settings: Settings) -> Verdict:
    """Speed of the fastest screen of good precision over NumPy, over our scan, and over the searches of others."""
    subject, line = subjects(settings)[name], curve(settings, name)
    points: list[Point] = line["points"]
    good = [point for point in points if point["method"] in SCREENS and curves.reaches(point)]
    if not good:
        best = max((p for p in points if p["method"] in SCREENS), key=lambda p: (p["p_at_5"], p["p_at_1"]))
        return Verdict(
            False, f"{note(subject)}no screen reaches it; best P@1 {best['p_at_1']:.4f}, P@5 {best['p_at_5']:.4f}"
        )
    best = max(good, key=lambda point: point["ratio"])
    scan, call = (next(point for point in points if point["method"] == method) for method in ("scan", CALL))
    rivals = {name: curves.represent(points, name) for name in SEARCHES}
    said = [
        f"{name} x{rival['ratio']:.1f} at P@1 {rival['p_at_1']:.4f}, P@5 {rival['p_at_5']:.4f}"
        for name, rival in rivals.items()
        if rival is not None
    ]
    ahead = all(
        best["ratio"] > rival["ratio"] for rival in rivals.values() if rival is not None and curves.reaches(rival)
    )
    over_scan = best["ratio"] / scan["ratio"]
    holds = ahead and best["ratio"] >= (subject.over_numpy or 0) and over_scan >= (subject.over_scan or 0)
    figure = (
        f"{note(subject)}"
        f"{best['method']} x{best['ratio']:.0f} over {BASELINE} ({best['least_ratio']:.0f}-{best['most_ratio']:.0f}), "
        f"x{over_scan:.1f} over scan; P@1 {best['p_at_1']:.4f}, P@5 {best['p_at_5']:.4f}, {best['us']:.1f} us, "
        f"of which a call alone takes {call['us']:.1f}; "
    )
    return Verdict(holds, figure + "; ".join(said))


@cache
def fit_searched(settings: Settings) -> dict[str, Future[Path]]:
    """Fit the screens for beam search of all translation models that are there, a model on each core."""
    places = {s.name: (s, find_folder(s, settings.models)) for s in measured(settings) if s.columns}
    with ProcessPoolExecutor(len(TRANSLATION)) as pool:
        return {
            name: pool.submit(screened_search.screened_copy, subject, folder, settings.data, settings.quick)
            for name, (subject, folder) in places.items()
            if folder is not None
        }


def searched(name: str, settings: Settings) -> Verdict:
    """BLEU, equal sentences and time of beam search with the screen."""
    subject = subjects(settings)[name]
    folder = folder_of(subject, settings)
    fit_searched(settings)[name].result()  # raises what went wrong there
    line = screened_search.measure(subject, folder, settings.data, settings.quick)
    print(screened_search.describe(line), flush=True)
    quality = line["quality"].values()
    worst = max((q["difference"] for q in quality), key=abs)
    same = min(q["identical"] for q in quality)
    layer = {beam: t["exact"]["layer_ms"] / t["screen"]["layer_ms"] for beam, t in line["times"].items()}
    whole = {beam: t["screen"]["ratio"] for beam, t in line["times"].items()}
    times = ", ".join(f"{beam}: layer x{layer[beam]:.1f}, whole x{whole[beam]:.2f}" for beam in layer)
    fallback = line["screen"]["held_out"]["fallback"]
    figure = f"BLEU off by {worst:+.3f} at most, {same:.2%} the same at least, {fallback:.1%} fall back; {times}"
    faster = min(layer.values()) > 1 and fallback < 0.5  # a screen whose rows all fall back is a scan
    return Verdict(abs(worst) <= 0.05 and same >= 0.99 and faster, figure)


@cache
def studied(settings: Settings) -> dict[str, Any]:
    """Vocabulary, clusters and budget of the small language model."""
    folder_of(subjects(settings)[STUDIED], settings)
    return studies.study(all_prepared(settings)[STUDIED].layer, settings.quick)


def learning(settings: Settings) -> Verdict:
    """L2S against what it starts from and against k-means, at each budget."""
    found = {STUDIED: studied(settings)["budget"]}
    if not settings.quick:
        for name in TRANSLATION:
            if name in all_prepared(settings):
                layer = all_prepared(settings)[name].layer
                found[name] = studies.equal_budgets(layer, studies.QUICK_BUDGETS, settings.quick)["budgets"]
    said, holds = [], True
    for name, points in found.items():
        for point in points:
            gains = {m: point[f"gain_over_{m}"] for m in ("spherical", "kmeans")}
            holds = holds and all(g["p_at_5"] > g["plus_minus"] for g in gains.values())
            parts = (f"{g['p_at_5']:+.4f} +- {g['plus_minus']:.4f} over {m}" for m, g in gains.items())
            said.append(f"{name} at {point['budget']} words {' and '.join(parts)}")
    return Verdict(holds, "P@5 " + "; ".join(said))


def without_differences(settings: Settings) -> Verdict:
    """Differences and speed of the proven layer on each model."""
    said, holds = [], True
    for name, prepared in all_prepared(settings).items():
        line = proven.measure(prepared.layer, settings.quick)
        wrong = sum(line["differences"].values())
        text = f"{name}: {wrong} differences in {line['vectors']} and {4 * proven.HARD} hard vectors"
        holds = holds and wrong == 0
        for rows, times in line.get("times", {}).items():
            over_scan, over_numpy = (
                times["proven"]["over_scan"],
                times["proven"]["over_scan"] / times[BASELINE]["over_scan"],
            )
            holds = holds and over_scan >= 2.5 and over_numpy >= 15
            text += f", {rows} rows x{over_scan:.2f} over scan, x{over_numpy:.1f} over {BASELINE}"
        said.append(f"{text}, normaliser within {line['normaliser']['largest']:.1e}")
    return Verdict(holds, "; ".join(said) or "no model")


def pictures(settings: Settings) -> Verdict:
    """Perplexity of the PTB models, and the studies with their picture."""
    studied(settings)
    said = []
    for name in (subjects(settings)[asked].name for asked in ("lm-ptb-small", "lm-ptb-large")):
        if name in all_prepared(settings):
            prepared = all_prepared(settings)[name]
            line = perplexity.measure(prepared, settings.data, settings.quick)
            print(perplexity.describe(line), flush=True)
            whole = perplexity.whole_text(prepared.subject, prepared.folder, settings.data)
            said.append(f"{name} {whole['perplexity']} on {whole['words']} words of the test text")
            full, rank, tail = (line["completed"][m]["perplexity"] for m in ("full", "l2s", "l2s with a tail"))
            said.append(f"{name} {full:.2f} -> {rank:.2f} completed by low rank, {tail:.2f} by a tail")
        else:
            said.append(f"{name} missing")
    drawn = [f"curves-{name}.png" for name in all_prepared(settings)] + [f"studies-{STUDIED}.png"]
    there = [name for name in drawn if (record.RESULTS / name).is_file()]
    return Verdict(len(there) == len(drawn), f"{'; '.join(said)}; {', '.join(there)}")


def truths(settings: Settings) -> Verdict:
    """Exact top k, exact logits, full budgets, save and load, other weights refused: the tests, on every table."""
    found = []
    for name in _core.table_names():
        command = [sys.executable, "-m", "pytest", "-q", *TRUTHS]
        environment = os.environ | {"SHARPBEAM_ISA": name}
        result = subprocess.run(command, cwd=record.ROOT, env=environment, capture_output=True, text=True, check=False)
        found.append(
            (name, result.returncode == 0, (result.stdout.strip().splitlines() or ["nothing"])[-1].strip("= "))
        )
    holds = {name for name, passed, _ in found if passed} >= {"scalar", "avx2", "avx512"}
    return Verdict(holds, "; ".join(f"{name}: {end}" for name, _, end in found))


def _screened(subject: Subject, letter: str) -> Claim:
    target = f"x{subject.over_numpy} over {BASELINE}, x{subject.over_scan} over scan, ahead of ScaNN and Faiss IVF"
    return Claim(
        f"2{letter}",
        f"the screen at P@1 .998 and P@5 .99, {subject.shape}",
        target,
        lambda s: screened(subject.name, s),
    )


def _searched(name: str, letter: str) -> Claim:
    target = "BLEU within .05, 99% of the sentences the same, a faster layer, less than half of the rows fall back"
    return Claim(f"3{letter}", f"beam search on the screen, {name}", target, lambda s: searched(name, s))


CLAIMS = [
    Claim("1", "L2S Table 2 with all rows for each model", "all five models", table),
    *(_screened(s, letter) for s, letter in zip((s for s in SUBJECTS if s.over_numpy), "abcd", strict=True)),
    *(_searched(name, letter) for name, letter in zip(TRANSLATION, "ab", strict=True)),
    Claim(
        "4", "L2S beats spherical k-means and k-means at equal budget", "above its 95% interval everywhere", learning
    ),
    Claim(
        "5",
        "proven is exact and faster",
        "0 differences, x2.5 over scan, x15 over NumPy at 1 and 5 rows",
        without_differences,
    ),
    Claim("6", "perplexity (L2S Table 6) and curves", "table printed, all pictures drawn", pictures),
    Claim("7", "truths on every kernel table", "all pass on scalar, avx2, avx512", truths),
]
