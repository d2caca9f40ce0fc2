"""Translate demo/german.txt with the bundled model, in int8 and in float32: `make demo`.

Shows each translation, then how fast both were and how many translations are the same.
"""

from __future__ import annotations

import time
from pathlib import Path

from sharpbeam import Translator

TEXTS = (Path(__file__).parent / "german.txt").read_text(encoding="utf-8").splitlines()


def timed(compute_type: str, output_layer: str) -> tuple[list[str], float]:
    """The translations of all texts by beam search, and the seconds that they took without loading."""
    translator = Translator("de-en", compute_type=compute_type)
    translator.translate(TEXTS[:2], output_layer=output_layer)  # packs the weights
    began = time.perf_counter()
    answers = translator.translate(TEXTS, beam_size=5, output_layer=output_layer)
    return [answer.text for answer in answers], time.perf_counter() - began


def main() -> None:
    """Print the translations and the comparison."""
    fast, fast_seconds = timed("int8", "scan")
    plain, plain_seconds = timed("float32", "exact")
    for source, target in zip(TEXTS, fast, strict=True):
        print(f"{source}\n    {target}")
    words = sum(len(text.split()) for text in fast)
    same = sum(left == right for left, right in zip(fast, plain, strict=True))
    print(f"\n{len(TEXTS)} sentences, {words} words, beam 5:")
    print(f"  int8, proven int8 scan of the vocabulary   {fast_seconds:5.2f} s  {words / fast_seconds:6,.0f} words/s")
    print(f"  float32, every logit                       {plain_seconds:5.2f} s  {words / plain_seconds:6,.0f} words/s")
    print(f"  {same} of {len(TEXTS)} translations are the same")
    print("\nThe bundled model is small and knows everyday sentences only. For other text: sharpbeam convert --help")


if __name__ == "__main__":
    main()
