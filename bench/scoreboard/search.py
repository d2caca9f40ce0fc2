"""Part 3, search and schedule: the same answers by every way, in less time."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import fuzz.search_cases as fuzz
from contract import truths

from bench.decode import speed as decode
from bench.harness import record
from bench.papers.cube import speed as cube
from bench.papers.stream import stopping, stream
from bench.scoreboard.claim import Claim, Settings, Verdict

PARSERS = Path("runs")  # where the models of semantic and syntactic parsing are trained to
OUTPUT_LAYER = "scan"


def combinations(settings: Settings) -> Verdict:
    """Truths 1, 3 and 7; quickly on 60 sentences."""
    sentences = 60 if settings.quick else 1000
    tried, wrong = truths.misses(settings.model, settings.data, sentences)
    ends = "".join(f"; not: {combination}" for combination in wrong[:3])
    return Verdict(not wrong, f"{tried - len(wrong)} of {tried} on {sentences} sentences{ends}")


@cache
def _tables(settings: Settings) -> tuple[dict[str, Any], ...]:
    found = stream.tables(settings.model, settings.data, OUTPUT_LAYER, quick=settings.quick, full=False)
    return tuple(found)


@dataclass(frozen=True)
class Streams:
    """How much of another strategy's time streams do without, on the worst of the tables of one beam size."""

    beam_size: int
    against: str
    target: float
    bleu: bool = field(default=False)  # whether BLEU must stay within 0.1, too

    def __call__(self, settings: Settings) -> Verdict:
        holds, said = True, []
        for line in _tables(settings):
            if line["options"]["beam_size"] != self.beam_size:
                continue
            share = {name: stream.saved(line, name, self.against) for name in ("VAR-STREAM", "STREAM")}
            bleu = self._bleu(line["options"]["name"], settings) if self.bleu else 0.0
            holds &= share["VAR-STREAM"] >= self.target and abs(bleu) <= 0.1
            said.append(
                f"{line['options']['name']}, {line['threads']} thread(s): {share['VAR-STREAM']:.1%} "
                f"(all requests in each step: {share['STREAM']:.1%})" + (f", BLEU {bleu:+.2f}" if self.bleu else "")
            )
        return Verdict(holds and bool(said), "; ".join(said))

    def _bleu(self, name: str, settings: Settings) -> float:
        """How much better variable beams are than fixed ones, on as many sentences as there is time for."""
        if settings.quick:
            place = (name, self.beam_size)
            line = next(x for x in _tables(settings) if (x["options"]["name"], x["options"]["beam_size"]) == place)
            found = {who: one["bleu"] for who, one in line["contenders"].items()}
        else:
            found = stream.whole(settings.model, settings.data, OUTPUT_LAYER, name, self.beam_size)["bleu"]
        return float(found["VAR-BATCH"] - found[stream.BASELINE])


@dataclass(frozen=True)
class CubePruning:
    """How much faster than NBS+SN a setting is at beam 30, on the models trained for it."""

    setting: str

    def __call__(self, settings: Settings) -> Verdict:
        return Verdict(*cube.promise(settings.data, settings.quick, self.setting))


def merging(settings: Settings) -> Verdict:
    """The last recorded curves: all six settings, beams from 1 to 40."""
    found = {line["setting"]: line for line in record.read("cube")}
    six = [setting.name for setting in cube.settings()[:6]]
    absent = [name for name in six if name not in found]
    if absent:
        return Verdict(None, f"no figures of {', '.join(absent)}; run python -m bench papers.cube.speed")
    said = []
    for name in six:
        point = max(found[name]["points"], key=lambda point: point["beam_size"])
        said.append(f"{name} beam {point['beam_size']} {point['merging_rate']:.2f}")
    one_run = len({(line["commit"], line["options"].get("set")) for line in (found[name] for name in six)}) == 1
    return Verdict(one_run, "merging rate: " + ", ".join(said) + ("" if one_run else "; not of one run"))


@cache
def _parsers(settings: Settings) -> dict[str, dict[str, dict[str, Any]]]:
    """The tables of semantic and syntactic parsing by the names of their tasks, measured once for all claims."""
    from bench.papers.stream import parsing as parsers  # needs PyTorch and an EVALB

    found = parsers.tasks(PARSERS, Path(settings.data), 100 if settings.quick else 300)
    return {task.name: parsers.measure(task, 1 if settings.quick else 3) for task in found}


def parsing(settings: Settings) -> Verdict:
    """Streams must be as good as batches and have fuller steps."""
    found = _parsers(settings)
    if not found:
        return Verdict(None, f"no models in {PARSERS}/ (recipes/semantic-*.toml, examples/constituency)")
    holds, said = True, []
    for name, table in found.items():
        greedy, fixed, batch, flow = (table[way] for way in ("GREEDY", "FIXED", "VAR-BATCH", "VAR-STREAM"))
        holds &= flow["f1"] >= fixed["f1"] - 0.5 and flow["expansions_per_step"] > batch["expansions_per_step"]
        said.append(
            f"{name}: F1 {greedy['f1']} greedy, {flow['f1']} stream (oracle {flow['oracle_f1']}), expansions per "
            f"step {batch['expansions_per_step']} -> {flow['expansions_per_step']}"
        )
    return Verdict(holds and {"atis", "jobs", "geo"} <= set(found), "; ".join(said))


def published_parsing(settings: Settings) -> Verdict:
    """F1 within reach of what STREAM's Tables 2, 6 and 7 have."""
    found = _parsers(settings)
    if not found:
        return Verdict(None, f"no models in {PARSERS}/ (recipes/semantic-*.toml, examples/constituency)")
    rows = {name: table["VAR-STREAM"] for name, table in found.items() if table["VAR-STREAM"]["paper"]}
    said = "; ".join(f"{name} {row['f1']} (paper {row['paper'][0]})" for name, row in rows.items())
    near = all(row["f1"] >= row["paper"][0] - 3 for row in rows.values())
    return Verdict(near and {"atis", "jobs", "geo"} <= set(rows), said)


def proven_stop(settings: Settings) -> Verdict:
    """Identical to searching to the end, by length penalty."""
    lines = stopping.measure(settings.model, settings.data, 150 if settings.quick else 3000, OUTPUT_LAYER)
    holds = all(line["equal"] == line["sentences"] for line in lines)
    return Verdict(holds, " | ".join(stopping.describe(line) for line in lines))


def _bookkeeping(settings: Settings, sentences: int, tokens: int) -> Verdict:
    """Time of a step outside model and output layer, at batch 1 and in batches of so many tokens."""
    alone = decode.step_shares(settings.model, settings.data, 64 if settings.quick else 320, 1)
    together = decode.step_shares(settings.model, settings.data, sentences, tokens)
    holds = alone["bookkeeping_us"] < 60 and together["bookkeeping"] < 0.05
    return Verdict(
        holds,
        f"{alone['bookkeeping_us']:.0f} us of {1e3 * alone['step_ms']:.0f} us at batch 1; "
        f"{together['bookkeeping']:.1%} of {together['step_ms']:.2f} ms in batches",
    )


def bookkeeping_of_32(settings: Settings) -> Verdict:
    """With 32 sentences in one batch."""
    return _bookkeeping(settings, 32, 1 << 20)


def bookkeeping(settings: Settings) -> Verdict:
    """With batches as users get them."""
    return _bookkeeping(settings, 64 if settings.quick else 320, 0)


def fuzzed(settings: Settings) -> Verdict:
    """Random models, options, orders and limits."""
    cases = 250 if settings.quick else 5000
    wrong = fuzz.measure(cases, 0)
    ends = "".join(f"; {said}" for said in wrong[:3])
    return Verdict(not wrong, f"{cases * fuzz.REQUESTS} requests in {cases} cases, {len(wrong)} misses{ends}")


CLAIMS = [
    Claim("1", "truths 1, 3, 7 on every layer x search x schedule", "all hold", combinations),
    Claim(
        "2a", "VAR-STREAM saves of FIXED's time, k = 50", ">= 75%, BLEU within 0.1", Streams(50, "FIXED", 0.75, True)
    ),
    Claim("2b", "VAR-STREAM saves of FIXED's time, k = 5", ">= 30%, BLEU within 0.1", Streams(5, "FIXED", 0.30, True)),
    Claim("2c", "VAR-STREAM saves of VAR-BATCH's time, k = 50", ">= 20%", Streams(50, "VAR-BATCH", 0.20)),
    Claim("2d", "VAR-STREAM saves of VAR-BATCH's time, k = 5", ">= 20%", Streams(5, "VAR-BATCH", 0.20)),
    Claim("3a", "merging rates and BLEU of six settings, beams 1 to 40", "recorded, in one run", merging),
    Claim("3b", "ACP+SN against NBS+SN at beam 30", "x3.5, BLEU within 0.1", CubePruning("ACP+SN")),
    Claim(
        "3c",
        "the same with likeness for the last word, and variable width",
        "x3.5, BLEU within 0.1",
        CubePruning("likeness .95 +SN, margin 3"),
    ),
    Claim("4a", "semantic and syntactic parsing by four strategies", "F1 within 3 of the paper's", published_parsing),
    Claim("4b", "the same", "F1 as FIXED's, fuller steps", parsing),
    Claim("5", "the proven stop rule answers as exhaustive search", "identical", proven_stop),
    Claim("6a", "bookkeeping of a step, beam 5", "< 60 us at batch 1, < 5% at batch 32", bookkeeping_of_32),
    Claim("6b", "the same", "< 60 us at batch 1, < 5% in batches", bookkeeping),
    Claim("7", "fuzz of searches and schedules", "no miss in 100,000 requests", fuzzed),
]
