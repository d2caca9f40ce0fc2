"""Part 5, the models that people have: as fast as was promised against CTranslate2, and the same answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import identity, imports, load_time, one_sentence, peers
from benchmarks.scoreboard.claim import Claim, Settings, Verdict
from benchmarks.subjects import find_named

TRAINED = ("transformer-de-en", "transformer-multi")  # looked for in the folders of --models


@cache
def _line(
    shape: str | None, model: str | None, settings: Settings, batch: int, beam: int, threads: int
) -> dict[str, Any]:
    sentences = (4 if settings.quick else 8) if batch == 1 else (32 if settings.quick else 64)
    if model is not None:
        sentences = 100 if settings.quick else 400
    job = peers.task(shape, model, settings.data, sentences, batch, beam, threads)
    layers = ["scan", "shortlist", "screen"] if shape else _layers(job.folder)
    name, rounds = shape or Path(str(model)).resolve().parent.name, 3 if settings.quick or model else 7
    with_hugging_face = (shape, batch, beam, threads) == ("opus-6+6", 1, 5, 1)
    line = peers.measure(job, name, layers, rounds, with_hugging_face)
    print(peers.lines(line), flush=True)
    return line


def _layers(folder: Path) -> list[str]:
    return ["exact", "scan", *(name for name in ("shortlist", "screen") if (folder / f"{name}.json").is_file())]


@dataclass(frozen=True)
class Ratio:
    """How much faster an output layer of ours is than a contender, on random weights of a shape."""

    shape: str
    batch: int
    beam: int
    layer: str
    against: str
    target: float
    threads: int = 1

    def __call__(self, settings: Settings) -> Verdict:
        found = _line(self.shape, None, settings, self.batch, self.beam, self.threads)["contenders"]
        ratio = found[f"ours {self.layer}"]["ratio"] / found[self.against]["ratio"]
        return Verdict(ratio >= self.target, f"x{ratio:.2f}")


def trained(settings: Settings) -> Verdict:
    """The trained transformers: BLEU within 0.05 of the exact layer in float32, and the ratios."""
    said, holds = [], True
    for name in TRAINED:
        folder = find_named(name, settings.models)
        for batch, beam in ((1, 1), (1, 5), (32, 5)) if folder else ():
            found = _line(None, str(folder), settings, batch, beam, 1)["contenders"]
            ours = {who: one for who, one in found.items() if who.startswith("ours")}
            distance = min(one["bleu"] for one in ours.values()) - found["ours exact"]["bleu"]
            holds &= distance >= -0.05
            ratios = ", ".join(f"{who} x{one['ratio']:.2f}" for who, one in ours.items())
            said.append(f"{name} batch {batch} beam {beam}: {ratios}, BLEU {distance:+.2f}")
    return Verdict(holds and bool(said), "; ".join(said) or "no trained transformer was found; see --models")


def hugging_face(settings: Settings) -> Verdict:
    """Our layers against `generate` of transformers in float32, on random weights."""
    found = _line("opus-6+6", None, settings, 1, 5, 1)["contenders"]
    other = found["Hugging Face"]["ratio"]
    ratios = {who: one["ratio"] / other for who, one in found.items() if who.startswith("ours")}
    return Verdict(min(ratios.values()) > 1, ", ".join(f"{who} x{ratio:.1f}" for who, ratio in ratios.items()))


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


def fuzzed(settings: Settings) -> Verdict:
    """Broken and hostile files of every format."""
    found = imports.fuzz(200 if settings.quick else 10_000, 0)
    bad = {name: one for name, one in found.items() if one.wrong}
    figure = ", ".join(f"{name} {one.refused} refused, {one.read} read" for name, one in found.items())
    return Verdict(not bad, figure + "".join(f"; {name}: {one.wrong[0]}" for name, one in bad.items()))


def loading(settings: Settings) -> Verdict:
    """A model of the size of NLLB-600M, warm."""
    line = load_time.measure("opus-6+6" if settings.quick else "nllb-600m")
    figure = (
        f"{line['options']['shape']}: {line['seconds']:.2f} s, a first sentence with {line['options']['projection']} "
        f"{line['first_sentence_s']:.2f} s, {line['resident_mib']:.0f} MiB resident, {line['peak_mib']:.0f} at most"
    )
    return Verdict(line["seconds"] < 2.0, figure)


PLAIN, MAP = "CTranslate2", "CTranslate2 with map"
_ONE = ("opus-6+6", "opus-12+1")
CLAIMS = [
    *(
        Claim(
            "1",
            f"{shape}, batch 1, beam 5, screen",
            f"x{target} over CTranslate2",
            Ratio(shape, 1, 5, "screen", PLAIN, target),
        )
        for shape, target in zip(_ONE, (10, 13), strict=True)
    ),
    *(
        Claim("1", f"{shape}, batch 32, beam 5, screen", "x6 over CTranslate2", Ratio(shape, 32, 5, "screen", PLAIN, 6))
        for shape in _ONE
    ),
    *(
        Claim(
            "1",
            f"{shape}, batch {batch}, beam 5, scan",
            f"x{target} over CTranslate2",
            Ratio(shape, batch, 5, "scan", PLAIN, target),
        )
        for shape in _ONE
        for batch, target in ((1, 4), (32, 3))
    ),
    *(
        Claim(
            "1",
            f"{shape}, batch {batch}, beam 5, shortlist",
            f"x{target} over its map",
            Ratio(shape, batch, 5, "shortlist", MAP, target),
        )
        for shape, batch, target in (("opus-6+6", 1, 4), ("opus-12+1", 1, 2), ("opus-6+6", 32, 3))
    ),
    Claim("1", "opus-6+6, two threads at batch 1", "faster than one", two_threads),
    Claim("1", "trained models", "BLEU within 0.05 of exact float32", trained),
    Claim("3", "opus-6+6, batch 1, beam 5, against Hugging Face's generate", "faster", hugging_face),
    Claim("4", "the same tokens as generate", "0 wrong, scores within 1e-4", identical),
    Claim("5", "loading a 600M model, warm", "below 2 s", loading),
    Claim("6", "broken and hostile imports", "a clear error, no crash", fuzzed),
]
