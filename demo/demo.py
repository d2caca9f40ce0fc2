"""Translate demo/german.txt with a bundled model, as it comes and in float32: `make demo`.

Shows some translations, then words per second of both, and BLEU against demo/english.txt.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from sacrebleu.metrics import BLEU

from sharpbeam import Translator

HERE = Path(__file__).parent
TEXTS = (HERE / "german.txt").read_text("utf-8").splitlines()
REFERENCES = (HERE / "english.txt").read_text("utf-8").splitlines()
SHOWN = (0, 9, 7, 13, 20, 23, 24, 84, 90, 102, 104)  # of the texts
ROUNDS = 3  # of both, interleaved


def timed(translator: Translator) -> tuple[list[str], float]:
    """The translations of all texts, and seconds."""
    began = time.perf_counter()
    answers = [answer.text for answer in translator.translate(TEXTS, beam_size=5)]
    return answers, time.perf_counter() - began


def main() -> None:
    """Print translations and the comparison."""
    translators = {"as it comes": Translator("de-en"), "float32 (--exact)": Translator("de-en", exact=True)}
    answers = {name: timed(translator)[0] for name, translator in translators.items()}  # and warms up
    for place in SHOWN:
        print(f"{TEXTS[place]}\n    {answers['as it comes'][place]}")
    seconds: dict[str, list[float]] = {name: [] for name in translators}
    for _ in range(ROUNDS):
        for name, translator in translators.items():
            seconds[name].append(timed(translator)[1])
    words = sum(len(text.split()) for text in TEXTS)
    print(f"\n{len(TEXTS)} sentences, {words} words, beam 5, German to English:")
    for name, texts in answers.items():
        speed = words / statistics.median(seconds[name])
        print(f"  {name:<18} {speed:7,.0f} words/s   BLEU {BLEU().corpus_score(texts, [REFERENCES]).score:.1f}")
    same = sum(map(str.__eq__, *answers.values()))
    print(f"  {same} of {len(TEXTS)} translations are the same")
    print("\nThis bundled model knows everyday German only; en-pt is better, and a real one is that of make demo-real")
    print("Your own text: sharpbeam translate de-en FILE. Other models: sharpbeam convert --help")


if __name__ == "__main__":
    main()
