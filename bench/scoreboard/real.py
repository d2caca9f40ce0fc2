"""Models that people have, as they come: trained models only, same text, same weights, interleaved, one thread."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from bench.harness import record
from bench.scoreboard.claim import Claim, Settings, Verdict, with_floor
from bench.scoreboard.proven import net_speed

FIREFOX = ("enpt", "pten")
TRAINED = ("de-en-transformer",)
BLEU_DISTANCE = 0.1  # of claim 1
EQUAL_BLEU = 0.3  # two int8 arithmetics on some hundred sentences
SLOWER = 1.1  # of claim 6
PROVEN = ("ours scan", "ours proven", "ours exact")  # layers with the answers of the exact one
SENTENCES, FILES = 1000, 10_000  # of claim 5
FORMATS = ("T5", "BART", "mBART", "SMaLL-100", "Bergamot")  # that this part added
WIDE = "docs/lab/transformers.md, 160 rows of a wide model"  # where floors are noted
Measure = Callable[[Settings], Verdict]


def speed_over_baseline(
    models: tuple[str, ...], beam: int, size: int, target: float, who: str = "ours", over: str = ""
) -> Measure:
    """`who` at least `target` times as fast as the baseline, or as those whose names begin with `over`, on each model.

    From the newest lines of bench/results/real.jsonl; on a busy machine the ratios are of processor time.
    """

    def judge(line: dict[str, Any]) -> tuple[bool, str]:
        found = line["contenders"]
        fields = "ratio" if line["load"] > line["cores"] else "wall_ratio"
        peers = [name for name in found if name.startswith(over)] if over else [next(iter(found))]
        ratio = found[who][fields] / max(found[name][fields] for name in peers)
        worse = found[peers[0]]["bleu"] - found[who]["bleu"]
        said = f"{line['options']['model']} x{ratio:.1f}, BLEU {found[who]['bleu']} to {found[peers[0]]['bleu']}"
        busy = ", busy machine" if fields == "ratio" else ""
        return ratio >= target and worse <= EQUAL_BLEU, f"{said}{busy} [{line['commit'][:7]}]"

    return _of_lines("real", [{"model": model, "beam": beam, "size": size} for model in models], judge)


def _quality(line: dict[str, Any]) -> tuple[bool, str]:
    """Claim 1 of one set: ours against Bergamot, each as it comes and without a shortlist."""
    bleu, same, o = line["bleu"], line["same"], line["options"]
    near = abs(bleu["ours"] - bleu["Bergamot"]) <= BLEU_DISTANCE
    said = f"{o['model']} {o['set']} beam {o['beam']}: BLEU {bleu['ours']} to {bleu['Bergamot']}"
    shares = f"{same['Bergamot = ours']:.1%} the same, shortlists {same['Bergamot, shortlist = ours, shortlist']:.1%}"
    return near, f"{said}, {shares}"


def _memory(line: dict[str, Any]) -> tuple[bool, str]:
    """Claim 7: the peak of ours below the baseline's."""
    found = line["contenders"]
    own, theirs = found["ours"]["peak_mib"], next(iter(found.values()))["peak_mib"]
    return own < theirs, f"{line['options']['model']} {own:.0f} MiB to {next(iter(found))}'s {theirs:.0f}"


def _no_flags(line: dict[str, Any]) -> tuple[bool, str]:
    """Claim 6 of one model: no flags against what `tune` chose, timed in turn."""
    times = {size: found["median"] for size, found in line["slower"].items()}
    said = ", ".join(f"x{time:.2f} as long at {size}" for size, time in times.items())
    auto, tuned = (" ".join(line[name].values()) for name in ("auto", "tuned"))
    choice = f"{auto}, which tune chooses too" if auto == tuned else f"{auto} for {tuned}"
    return max(times.values()) <= SLOWER, f"{line['options']['model']}: {choice}, {said}"


def exact_over_ctranslate2(target: float) -> Callable[[dict[str, Any]], tuple[bool, str]]:
    """Judge a line of `decode.peers`: the fastest of our layers whose answers are proven, over CTranslate2 int8."""

    def judge(line: dict[str, Any]) -> tuple[bool, str]:
        found = {name: line["contenders"][name]["ratio"] for name in PROVEN if name in line["contenders"]}
        name, ratio = max(found.items(), key=lambda one: one[1])
        said = f"{line['options']['name']} batch {line['options']['batch']}: {name} x{ratio:.2f}, x{target} wanted"
        return ratio >= target, f"{said} [{line['commit'][:7]}]"

    return judge


def shapes(*wanted: tuple[str, int, float]) -> Measure:
    """Each shape at a batch size against its target, by the newest lines."""

    def measure(settings: Settings) -> Verdict:
        found = [
            _of_lines("peers", [{"name": name, "batch": batch}], exact_over_ctranslate2(target))(settings)
            for name, batch, target in wanted
        ]
        holds = None if any(one.holds is None for one in found) else all(one.holds for one in found)
        return Verdict(holds, "; ".join(one.figure for one in found))

    return measure


def families(settings: Settings) -> Verdict:
    """The newest line of each family and way, and the last ones of broken files of each format."""
    ways: dict[tuple[str, str], dict[str, Any]] = {}
    for line in record.read("identity"):
        if "family" in line["options"]:
            ways[line["options"]["family"], json.dumps(line["options"]["way"])] = line
    formats: dict[str, dict[str, int]] = {}
    for line in record.read("imports"):
        if line["options"]["cases"] >= FILES and not line["dirty"]:
            formats |= line["formats"]
    if not ways or not formats:
        return Verdict(None, "no line in bench/results/identity.jsonl of a family, or in imports.jsonl")
    names, wrong = {family for family, _ in ways}, sum(line["wrong"] for line in ways.values())
    few = [line for line in ways.values() if line["options"]["sentences"] < SENTENCES]
    broken = sum(one["wrong"] for one in formats.values())
    missing = [one for one in FORMATS if not any(name.startswith(one) for name in formats)]
    figure = (
        f"{len(names)} families, {len(ways)} ways of {SENTENCES:,} sentences: {wrong} wrong, "
        f"{sum(line['ties'] for line in ways.values())} ties; {FILES:,} broken files of each of {len(formats)} files: "
        f"{broken} wrong" + "".join(f"; none of {name}" for name in missing)
    )
    return Verdict(not (wrong or few or broken or missing), figure)


def _of_lines(
    benchmark: str, wanted: list[dict[str, Any]], judge: Callable[[dict[str, Any]], tuple[bool, str]]
) -> Measure:
    """Judge the newest line with each of these options; not measured where one of them has no line."""

    def measure(settings: Settings) -> Verdict:
        verdicts = []
        for options in wanted:
            lines = [line for line in record.read(benchmark) if options.items() <= line["options"].items()]
            if not lines:
                asked = ", ".join(f"{name} {value}" for name, value in options.items())
                return Verdict(None, f"no line in bench/results/{benchmark}.jsonl with {asked}")
            verdicts.append(judge(lines[-1]))
        return Verdict(all(holds for holds, _ in verdicts), "; ".join(figure for _, figure in verdicts))

    return measure


CLAIMS = [
    Claim(
        "1",
        "`convert FOLDER` on Firefox en-pt and pt-en, greedy and beam 5, NTREX and Tatoeba, against Bergamot",
        "BLEU within 0.1; share of identical sentences with and without its shortlist, and why the rest differ",
        _of_lines(
            "bergamot",
            [{"model": m, "set": s, "beam": b} for m in FIREFOX for s in ("ntrex", "tatoeba") for b in (1, 5)],
            _quality,
        ),
    ),
    Claim(
        "2a",
        "en-pt and pt-en, no flags, one at a time, greedy, over Bergamot",
        "at least x9",
        speed_over_baseline(FIREFOX, 1, 1, 9),
    ),
    Claim("2b", "the same, beam 5", "at least x6", speed_over_baseline(FIREFOX, 5, 1, 6)),
    Claim(
        "2c",
        "en-pt and pt-en, no flags, in batches, greedy, over Bergamot",
        "at least x14",
        speed_over_baseline(FIREFOX, 1, 64, 14),
    ),
    Claim("2d", "the same, beam 5", "at least x8", speed_over_baseline(FIREFOX, 5, 64, 8)),
    Claim("2e", "the shortlist with its net", "no slower than the shortlist before", net_speed(1.0)),
    Claim(
        "2f",
        "en-pt and pt-en over Marian (its best type, its shortlist)",
        "at least x2",
        speed_over_baseline(FIREFOX, 1, 1, 2, over="Marian"),
    ),
    Claim(
        "3a",
        "trained de-en and multilingual transformers, no flags, batch 1, beam 5, over CTranslate2 int8",
        "at least x3 at equal BLEU",
        speed_over_baseline(TRAINED, 5, 1, 3),
    ),
    Claim(
        "3b",
        "the same at batch 32",
        "at least x2.5",
        with_floor(
            speed_over_baseline(TRAINED, 5, 32, 2.5),
            f"57% are int8 matmuls near peak, 8% exponentials at theirs: {WIDE}",
        ),
    ),
    Claim(
        "4a",
        "OPUS shape 6+6, random weights, exact answers, batch 1",
        "at least x6",
        with_floor(shapes(("opus-6+6", 1, 6)), f"a step reads 52 MB, 50 ms a sentence where x6 asks for 38: {WIDE}"),
    ),
    Claim(
        "4b",
        "OPUS shape 6+6, random weights, exact answers, batch 32",
        "at least x3",
        with_floor(shapes(("opus-6+6", 32, 3)), f"20 of 28 ms are int8 matmuls at their peak: {WIDE}"),
    ),
    Claim(
        "4c",
        "OPUS shape 12+1, random weights, batch 1 and 32",
        "at least x6 and x3",
        with_floor(
            shapes(("opus-12+1", 1, 6), ("opus-12+1", 32, 3)),
            f"a step reads 34 MB, 33 ms a sentence with the encoder, where x6 asks for 25: {WIDE}",
        ),
    ),
    Claim(
        "4d",
        "NLLB shape, random weights",
        "at least x5",
        with_floor(
            shapes(("nllb-600m", 1, 5)), f"a step reads 440 MB, 390 ms a sentence where x5 asks for 367: {WIDE}"
        ),
    ),
    Claim(
        "5", "families: 1,000 sentences of each; broken and hostile files", "0 wrong; 10,000 files a format", families
    ),
    Claim(
        "6",
        "`translate` with no flags, on every model",
        "within 10% of the best that `tune` finds",
        _of_lines("no_flags", [{"model": m} for m in (*FIREFOX, "de-en", *TRAINED)], _no_flags),
    ),
    Claim(
        "7",
        "peak memory on the same model",
        "below CTranslate2's and Bergamot's",
        _of_lines("real", [{"model": m, "beam": 5, "size": 1} for m in (*FIREFOX, *TRAINED)], _memory),
    ),
]
