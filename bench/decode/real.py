"""Models that people have, as they come: ours with no flags given against the peers that run the same weights.

All engines have one thread, and processes of their own; they take turns on the same sentences. Ratios are of processor
time against the first peer (Bergamot for Firefox's models, CTranslate2 int8 for others), medians over the rounds with
their spread; those of the clock on the wall stand next to them, and mean something on a quiet machine only. BLEU is of
the same sentences. A peer that cannot be had here is left out by name.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.engines import ctranslate2_model, firefox
from bench.engines.child import Answer, Child, EngineError, python_engine
from bench.harness import record
from bench.harness.bound import bound
from bench.harness.cache import model_name
from bench.harness.testset import DATA, test_file
from sharpbeam import _core
from sharpbeam.text.lines import column_pairs

# Name -> languages, of which the data's files hold English first.
PAIRS = {"enpt": ("eng", "por"), "pten": ("por", "eng")}
GERMAN_ENGLISH = ("deu", "eng")
SETS = {"ntrex": "ntrex/eng-{}.tsv.gz", "tatoeba": "tatoeba/eng-{}.test.tsv.gz", "valid": "tatoeba/eng-{}.valid.tsv.gz"}
BATCH = 64  # where nothing is timed
MARIAN = ("packed8", "intgemm8")  # and avx512 or avx2; the better is timed, others lose on every machine seen


def sentences(data: str, model: str, name: str, count: int) -> tuple[list[str], list[str]]:
    """Sources and references of a set, in the direction of a model; `count` (0 = all) at equal distances."""
    source, target = PAIRS.get(model, GERMAN_ENGLISH)
    path = test_file(data, SETS[name].format(target if source == "eng" else source))
    pairs = list(column_pairs(path, *((0, 1) if source == "eng" else (1, 0))))
    chosen = pairs if not 0 < count < len(pairs) else [pairs[i * len(pairs) // count] for i in range(count)]
    return [one for one, _ in chosen], [other for _, other in chosen]


def contenders(model: str, folder: Path, beam: int, size: int) -> dict[str, Callable[[], Child]]:
    """A start for each engine; the first is the baseline."""

    def ours(**settings: Any) -> Callable[[], Child]:
        return lambda: python_engine("ours", model=str(folder), beam_size=beam, **settings)

    own = {"ours": ours()}
    if (folder / "shortlist.json").is_file():
        own["ours, shortlist"] = ours(output_layer="shortlist")
    if model in PAIRS:
        peers: dict[str, Callable[[], Child]] = {"Bergamot": lambda: firefox.bergamot(model, beam)}
        peers["Bergamot, native"] = lambda: firefox.native_bergamot(model, beam)
        if beam == 1:
            peers["slimt"] = lambda: firefox.slimt(model)
        lanes = "avx512" if "512" in _core.table_name() else "avx2"
        for kind in (f"{one}{lanes}" for one in MARIAN):
            peers[f"Marian {kind}"] = lambda kind=kind: firefox.marian(model, beam, size, gemm=kind)  # type: ignore[misc]
        return peers | own
    return {"CTranslate2 int8": lambda: _ctranslate2(folder, beam, size)} | own


def _ctranslate2(folder: Path, beam: int, size: int) -> Child:
    copy = ctranslate2_model.write(folder, ctranslate2_model.home(folder) / "int8", "int8")
    return python_engine("ctranslate2", folder=str(copy), model=str(folder), kind="int8", beam=beam, size=size)


def measure(
    folder: Path, *, name: str, count: int = 100, rounds: int = 3, beam: int = 1, size: int = 1, data: str = DATA
) -> dict[str, Any]:
    """One line: ratios against the baseline, BLEU and peak memory of each engine that is here."""
    from sharpbeam.report.quality import quality

    model = model_name(folder.resolve())
    texts, references = sentences(data, model, name, count)
    missing: dict[str, str] = {}
    answers: dict[str, list[Answer]] = {}
    with ExitStack() as stack:
        children: dict[str, Child] = {}
        for who, start in contenders(model, folder, beam, size).items():
            try:
                child = stack.enter_context(start())
                answers[who] = [child.translate(texts, size)]  # loads, warms up, and is what BLEU is of
                children[who] = child
            except EngineError as error:
                missing[who] = str(error)
        names = list(children)
        for shift in range(rounds):
            for who in names[shift % len(names) :] + names[: shift % len(names)]:
                answers[who].append(children[who].translate(texts, size))
    baseline = answers[names[0]][1:]
    contestants = {
        who: {
            **_ratios([one.cpu_s for one in baseline], [one.cpu_s for one in times[1:]], ""),
            **_ratios([one.wall_s for one in baseline], [one.wall_s for one in times[1:]], "wall_"),
            "ms_per_sentence": 1e3 * statistics.median(one.cpu_s for one in times[1:]) / len(texts),
            "peak_mib": round(times[-1].peak_mib, 1),
            "bleu": round(quality(times[0].texts, references).bleu, 2),
            "same_as_baseline": sum(map(str.__eq__, times[0].texts, answers[names[0]][0].texts)) / len(texts),
        }
        for who, times in answers.items()
        if who in children
    }
    options = {"model": model, "set": name, "beam": beam, "size": size, "sentences": len(texts), "rounds": rounds}
    options["words"] = sum(len(text.split()) for text in texts)
    figures = {
        "contenders": contestants,
        "missing": missing,
        "bound": bound(folder, texts, beam_size=beam, **({"batch_tokens": 1} if size == 1 else {})),
    }
    return record.write("real", figures, threads=1, options=options)


def compare_answers(pair: str, name: str, beam: int, count: int, data: str) -> dict[str, Any]:
    """One line: BLEU of Bergamot and ours, with and without shortlist, and the share of equal sentences of each two."""
    from sharpbeam.report.quality import quality

    folder = str(firefox.model(pair))
    starts: dict[str, Callable[[], Child]] = {
        "Bergamot, shortlist": lambda: firefox.bergamot(pair, beam),
        "Bergamot": lambda: firefox.bergamot(pair, beam, shortlist=False),
        "ours": lambda: python_engine("ours", model=folder, beam_size=beam),
        "ours, shortlist": lambda: python_engine("ours", model=folder, beam_size=beam, output_layer="shortlist"),
        "ours, float32": lambda: python_engine("ours", model=folder, beam_size=beam, machine={"exact": True}),
    }
    texts, references = sentences(data, pair, name, count)
    answers: dict[str, list[str]] = {}
    for who, start in starts.items():
        with start() as child:
            answers[who] = child.translate(texts, BATCH).texts
    figures = {
        "bleu": {who: round(quality(own, references).bleu, 2) for who, own in answers.items()},
        "same": {
            f"{who} = {other}": round(sum(map(str.__eq__, answers[who], answers[other])) / len(texts), 4)
            for who, other in combinations(answers, 2)
        },
    }
    options = {"model": pair, "set": name, "beam": beam, "sentences": len(texts)}
    return record.write("bergamot", figures, threads=1, options=options)


def _ratios(base: list[float], own: list[float], prefix: str) -> dict[str, float]:
    ratios = [theirs / ours for theirs, ours in zip(base, own, strict=True)]
    summary = {"ratio": statistics.median(ratios), "least_ratio": min(ratios), "most_ratio": max(ratios)}
    return {prefix + what: round(value, 3) for what, value in summary.items()}


def lines(line: dict[str, Any]) -> str:
    """A table for people."""
    o = line["options"]
    rows = [
        f"{o['model']}, {o['set']}, {o['sentences']} sentences, {o['size']} at a time, beam {o['beam']}, "
        f"load {line['load']}"
    ]
    for who, one in line["contenders"].items():
        spread = (
            f"x{one['ratio']:.2f} ({one['least_ratio']:.2f} to {one['most_ratio']:.2f}), wall x{one['wall_ratio']:.2f}"
        )
        rows.append(
            f"  {who:<24}{spread:<44}{one['ms_per_sentence']:8.2f} ms a sentence  BLEU {one['bleu']:.2f}  "
            f"{one['peak_mib']:.0f} MiB  {one['same_as_baseline']:.1%} the same"
        )
    return "\n".join([*rows, *(f"  {who}: {why}" for who, why in line["missing"].items())])


def main(
    models: Annotated[
        list[Path] | None, typer.Argument(help="model folders; default: Firefox's en-pt and pt-en")
    ] = None,
    data: Annotated[str, typer.Option(help="folder of the text")] = DATA,
    text: Annotated[str, typer.Option(help=f"one of {', '.join(SETS)}; valid is for development")] = "ntrex",
    count: Annotated[int, typer.Option(help="sentences, at equal distances; 0 = all")] = 100,
    rounds: Annotated[int, typer.Option(min=1)] = 3,
    beams: Annotated[str, typer.Option(help="beam sizes")] = "1 5",
    sizes: Annotated[str, typer.Option(help="sentences that are handed over at a time")] = "1 64",
    answers: Annotated[bool, typer.Option("--answers", help="BLEU and equal answers on whole sets, untimed")] = False,
) -> None:
    """Measure each model at each beam size, one sentence at a time and in batches."""
    if answers:
        for pair, beam in ((pair, int(beam)) for pair in firefox.PAIRS for beam in beams.split()):
            print(json.dumps(compare_answers(pair, text, beam, count, data)), flush=True)
        return
    for folder in models or [firefox.model(pair) for pair in firefox.PAIRS]:
        for beam in map(int, beams.split()):
            for size in map(int, sizes.split()):
                line = measure(folder, name=text, count=count, rounds=rounds, beam=beam, size=size, data=data)
                print(lines(line), json.dumps(line), sep="\n", flush=True)
