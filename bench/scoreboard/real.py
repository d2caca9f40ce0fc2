"""Models that people have, as they come: trained models only, same text, same weights, interleaved, one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import record
from bench.scoreboard.claim import Claim, Settings, Verdict, pending

NOT_YET = pending("nothing measures it yet")
FIREFOX = ("enpt", "pten")
TRAINED = ("de-en-transformer",)
BLEU_DISTANCE = 0.1  # of claim 1
EQUAL_BLEU = 0.3  # two int8 arithmetics on some hundred sentences
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
    Claim("2e", "the shortlist with its net", "no slower than the shortlist before", NOT_YET),
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
    Claim("3b", "the same at batch 32", "at least x2.5", speed_over_baseline(TRAINED, 5, 32, 2.5)),
    Claim("4a", "OPUS shape 6+6, random weights, exact answers, batch 1", "at least x6", NOT_YET),
    Claim("4b", "OPUS shape 6+6, random weights, exact answers, batch 32", "at least x3", NOT_YET),
    Claim("4c", "OPUS shape 12+1, random weights, batch 1 and 32", "at least x6 and x3", NOT_YET),
    Claim("4d", "NLLB shape, random weights", "at least x5", NOT_YET),
    Claim(
        "5", "families: 1,000 sentences of each; broken and hostile files", "0 wrong; 10,000 files a format", NOT_YET
    ),
    Claim("6", "`translate` with no flags, on every model", "within 10% of the best that `tune` finds", NOT_YET),
    Claim(
        "7",
        "peak memory on the same model",
        "below CTranslate2's and Bergamot's",
        _of_lines("real", [{"model": m, "beam": 5, "size": 1} for m in (*FIREFOX, *TRAINED)], _memory),
    ),
]
