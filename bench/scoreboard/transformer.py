"""Part 5, the models that people have: as fast as was promised against CTranslate2, and the same answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import parity.identity as identity  # noqa: PLR0402 (packages without __init__)
import parity.imports as imports  # noqa: PLR0402
import parity.marian_identity as marian_identity  # noqa: PLR0402

from bench.decode import peers
from bench.harness import memory
from bench.harness.with_shortlist import listed
from bench.micro import load_time, one_sentence
from bench.papers.l2s.screened_search import screened
from bench.papers.l2s.subjects import find_named
from bench.scoreboard.claim import Claim, Settings, Verdict

PLAIN, MAP = "CTranslate2", "CTranslate2 with map"
OTHERS = {"marian": "pymarian", "onnx-runtime": "optimum"}  # and the package that each one needs
WITHOUT_FALLBACK = "; no row falls back, weights being random"  # what a fitted screen would have to do besides
TRAINED = ("de-en-transformer",)  # by their recipes; looked for in the folders of --models


@cache
def _line(shape: str, settings: Settings, batch: int, beam: int) -> dict[str, Any]:
    """All contenders on random weights of a shape, one thread."""
    sentences = (4 if settings.quick else 8) if batch == 1 else (32 if settings.quick else 64)
    job = peers.task(shape, None, settings.data, sentences, batch, beam, 1)
    slow = ["hugging-face", *(name for name, package in OTHERS.items() if find_spec(package))]
    others = slow if (shape, batch, beam) == ("opus-6+6", 1, 5) else []
    rounds = 3 if settings.quick else 7
    line = peers.measure(job, shape, ["scan", "shortlist", "screen"], rounds, others)
    print(peers.lines(line), flush=True)
    return line


@dataclass(frozen=True)
class Ratio:
    """How much faster an output layer of ours is than a contender, on random weights of a shape."""

    shape: str
    batch: int
    beam: int
    layer: str
    against: str
    target: float

    def __call__(self, settings: Settings) -> Verdict:
        found = _line(self.shape, settings, self.batch, self.beam)["contenders"]
        ratio = found[f"ours {self.layer}"]["ratio"] / found[self.against]["ratio"]
        return Verdict(ratio >= self.target, f"x{ratio:.2f}")


def trained(settings: Settings) -> Verdict:
    """The trained transformers, with a shortlist and a screen of fidelity 0.999: BLEU, and the ratios."""
    said, holds = [], True
    for name in TRAINED:
        found = find_named(name, settings.models)
        if found is None:
            continue
        folder = screened(str(listed(str(found), settings.data)), settings.data, settings.quick)
        for batch, beam in ((1, 1), (1, 5), (32, 5)):
            job = peers.task(None, str(folder), settings.data, 100 if settings.quick else 400, batch, beam, 1)
            line = peers.measure(job, name, ["scan", "shortlist", "screen"], 3)
            print(peers.lines(line), flush=True)
            exact = peers.exact_bleu(job)
            ours = {who: one for who, one in line["contenders"].items() if who.startswith("ours")}
            holds &= ours["ours screen"]["bleu"] >= exact - 0.05
            each = (f"{who} x{one['ratio']:.2f} (BLEU {one['bleu'] - exact:+.2f})" for who, one in ours.items())
            back = ours["ours screen"]["fallback_share"]
            said.append(f"{name}, batch {batch}, beam {beam}: {', '.join(each)}; {back:.1%} of its rows fell back")
    return Verdict(holds and bool(said), "; ".join(said) or "no trained transformer was found; see --models")


def large(settings: Settings) -> Verdict:
    """NLLB's shape, a few sentences."""
    job = peers.task("nllb-600m", None, settings.data, 2, 1, 5, 1)
    line = peers.measure(job, "nllb-600m", ["scan", "screen"], 1 if settings.quick else 3)
    print(peers.lines(line), flush=True)
    ratios = {who: one["ratio"] for who, one in line["contenders"].items() if who.startswith("ours")}
    return Verdict(min(ratios.values()) > 1, ", ".join(f"{who} x{ratio:.2f}" for who, ratio in ratios.items()))


def peak_memory(settings: Settings) -> Verdict:
    """A process that loads NLLB's shape and translates a sentence, against CTranslate2's."""
    line = memory.measure("opus-6+6" if settings.quick else "nllb-600m")
    peaks = {who: one["peak"] for who, one in line["mib"].items()}
    return Verdict(max(peaks.values()) == peaks[PLAIN], memory.describe(line))


def others(settings: Settings) -> Verdict:
    """Our layers against `generate` of transformers, in float32 and on ONNX Runtime, and Marian; on random weights."""
    found = _line("opus-6+6", settings, 1, 5)["contenders"]
    slower = [who for who in ("Hugging Face", "ONNX Runtime", "Marian", "Marian with shortlist") if who in found]
    ratios = {
        f"{who} over {other}": found[who]["ratio"] / found[other]["ratio"]
        for other in slower
        for who in found
        if who.startswith("ours")
    }
    said = ", ".join(f"{who} x{ratio:.1f}" for who, ratio in ratios.items())
    missing = [f"; {package} is not installed" for package in OTHERS.values() if not find_spec(package)]
    return Verdict(min(ratios.values()) > 1, said + "".join(missing))


def two_threads(settings: Settings) -> Verdict:
    """Two threads for one sentence against one, ours with each layer, and CTranslate2."""
    sentences, rounds = (2, 3) if settings.quick else (4, 9)
    said, holds = [], True
    for engine, layer in (("ours", "scan"), ("ours", "screen"), ("CTranslate2", "")):
        line = one_sentence.measure(engine, "opus-6+6", (1, 2), 5, layer, sentences, rounds)
        ratio = line["by_threads"]["2"]["ratio"]
        holds &= ratio > 1 or engine != "ours"
        said.append(f"{engine} {layer}".strip() + f" x{ratio:.2f}")
    return Verdict(holds, ", ".join(said))


def identical(settings: Settings) -> Verdict:
    """Every way to search on many sentences."""
    found = identity.misses(None, settings.data, 30 if settings.quick else 1000)
    wrong, ties = (sum(line[name] for line in found) for name in ("wrong", "ties"))
    furthest = max(line["furthest_score"] for line in found)
    sentences = found[0]["options"]["sentences"]
    figure = f"{len(found)} ways, {sentences} sentences each: {wrong} wrong, {ties} ties, scores within {furthest:.1e}"
    return Verdict(wrong == 0 and furthest < identity.CLOSE, figure)


def marian_itself(settings: Settings) -> Verdict:
    """Models of each kind that Marian has trained, scored and decoded, converted."""
    if not find_spec("pymarian"):
        return Verdict(None, "pymarian is not installed (pip install 'sharpbeam[marian]')")
    text = marian_identity.Text(settings.data)
    kinds = list(marian_identity.KINDS)[: 2 if settings.quick else None]
    found = [marian_identity.measure(kind, text) for kind in kinds]
    furthest = max(line["furthest_score"] for line in found)
    differing, translated = (sum(line.get(name, 0) for line in found) for name in ("differing", "translated"))
    figure = f"{len(kinds)} kinds: scores within {furthest:.1e}, {differing} of {translated} translations differ"
    binary = max(line["furthest_binary"] for line in found)
    holds = furthest < marian_identity.CLOSE and not differing and binary <= marian_identity.HALF_STEP
    return Verdict(holds, f"{figure}; its binary files within {binary:.4f} of the largest weight of a matrix")


def fuzzed(settings: Settings) -> Verdict:
    """Broken and hostile files of every format."""
    found = imports.fuzz(200 if settings.quick else 10_000, 0)
    bad = {name: one for name, one in found.items() if one.wrong}
    figure = ", ".join(f"{name} {one.refused} refused, {one.read} read" for name, one in found.items())
    figure += "".join(f"; {made} left out without {package}" for package, made in imports.LEFT_OUT.items())
    return Verdict(not bad, figure + "".join(f"; {name}: {one.wrong[0]}" for name, one in bad.items()))


@cache
def _loads(settings: Settings) -> dict[str, Any]:
    return load_time.measure("opus-6+6" if settings.quick else "nllb-600m")


def loading(settings: Settings) -> Verdict:
    """A model of the size of NLLB-600M, warm; its output layer is packed with the first sentence."""
    line = _loads(settings)
    return Verdict(line["seconds"] < 2.0, load_time.describe(line))


def first_answer(settings: Settings) -> Verdict:
    """The same with the output layer and one short sentence."""
    line = _loads(settings)
    return Verdict(line["first_answer_s"] < 2.0, load_time.describe(line))


def _ratio(number: str, shape: str, batch: int, layer: str, against: str, target: float) -> Claim:
    ratio = Ratio(shape, batch, 5, layer, against, target)
    says = f"{shape}, batch {batch}, beam 5, {layer}{WITHOUT_FALLBACK if layer == 'screen' else ''}"
    return Claim(number, says, f"x{target} over {against}", ratio)


CLAIMS = [
    _ratio("1a", "opus-6+6", 1, "screen", PLAIN, 10),
    _ratio("1a", "opus-12+1", 1, "screen", PLAIN, 13),
    _ratio("1a", "opus-6+6", 32, "screen", PLAIN, 6),
    _ratio("1a", "opus-12+1", 32, "screen", PLAIN, 6),
    _ratio("1b", "opus-6+6", 1, "scan", PLAIN, 4),
    _ratio("1b", "opus-6+6", 32, "scan", PLAIN, 3),
    _ratio("1b", "opus-12+1", 1, "scan", PLAIN, 4),
    _ratio("1b", "opus-12+1", 32, "scan", PLAIN, 3),
    _ratio("1c", "opus-6+6", 1, "shortlist", MAP, 4),
    _ratio("1c", "opus-12+1", 1, "shortlist", MAP, 2),
    _ratio("1c", "opus-6+6", 32, "shortlist", MAP, 3),
    Claim("1d", "opus-6+6, two threads at batch 1", "faster than one", two_threads),
    Claim("1e", "trained models", "BLEU within 0.05 of exact float32", trained),
    Claim("2a", f"nllb-600m, batch 1, beam 5, scan and screen{WITHOUT_FALLBACK}", "faster than CTranslate2", large),
    Claim("2b", "nllb-600m, peak memory", "below CTranslate2's", peak_memory),
    Claim("3", "opus-6+6, batch 1, beam 5, against Hugging Face, ONNX Runtime and Marian", "faster than each", others),
    Claim("4", "the same tokens as generate", "0 wrong, scores within 1e-4", identical),
    Claim("4", "the same scores and greedy words as Marian", "0 differ, scores within 1e-4", marian_itself),
    Claim("5", "loading a 600M model, warm", "below 2 s", loading),
    Claim("5", "loading a 600M model, warm, to the first answer", "below 2 s", first_answer),
    Claim("6", "broken and hostile imports", "a clear error, no crash", fuzzed),
]
