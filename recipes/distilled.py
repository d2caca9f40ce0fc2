"""Text for students of a teacher: sentences that it translates, and the pairs that are kept of its answers.

    python recipes/distilled.py sentences TEXT.gz ... --leave-out TEST.tsv.gz --output CORPORA/distilled/mono.en
    sharpbeam translate firefox:en-pt CORPORA/distilled/mono.en --raw --output CORPORA/distilled/mono.pt --resume
    python recipes/distilled.py pairs CORPORA/distilled/mono.en CORPORA/distilled/mono.pt --target pt

TEXT.gz holds paragraphs or tab-separated pairs whose first column counts, in UTF-8. Each sentence of 2 to 60 words is
taken once, in random order, unless a --leave-out file has it. Pairs with a flag (a copy, a loop, a lost number or span,
another language, cut) go, and those whose lengths differ too much. The last 700 are kept apart, for validation:
`valid.tsv` next to the two files, which are written anew.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from sharpbeam.text.flags import text_flags
from sharpbeam.text.lines import read_lines
from sharpbeam.text.sentences import split_sentences
from sharpbeam.text.spans import find_spans

WORDS, LETTERS = range(2, 61), 400  # of a sentence
RATIO = (0.5, 2.2)  # of the letters of an answer and its source
HELD_OUT, SEED = 700, 5


def first_columns(path: Path) -> Iterator[str]:
    """The first column of each line."""
    return (line.split("\t")[0].strip() for line in read_lines(path))


def sentences(texts: list[Path], leave_out: list[Path], output: Path, language: str) -> None:
    """Write the sentences of `texts`, in random order."""
    left = {sentence for path in leave_out for sentence in first_columns(path)}
    chosen = dict[str, None]()
    for path in texts:
        for line in first_columns(path):
            for start, end in split_sentences(line, language):
                sentence = line[start:end].strip()
                if len(sentence.split()) in WORDS and len(sentence) <= LETTERS and sentence not in left:
                    chosen[sentence] = None
    drawn = list(chosen)
    random.Random(SEED).shuffle(drawn)
    output.write_text("\n".join(drawn) + "\n", encoding="utf-8")
    print(f"{output}: {len(drawn)} sentences, {sum(len(one.split()) for one in drawn)} words")


def pairs(source: Path, answers: Path, target: str) -> None:
    """Write the sound pairs over the two files."""
    kept, dropped = list[tuple[str, str]](), Counter[str]()
    for one, other in zip(read_lines(source), read_lines(answers), strict=True):
        flags = text_flags(one, other, find_spans(one), target)
        if flags or not RATIO[0] < len(other) / len(one) < RATIO[1]:
            dropped[flags[0] if flags else "ratio"] += 1
        else:
            kept.append((one, other))
    apart, kept = kept[-HELD_OUT:], kept[:-HELD_OUT]
    for path, side in ((source, 0), (answers, 1)):
        path.write_text("\n".join(pair[side] for pair in kept) + "\n", encoding="utf-8")
    held = source.with_name("valid.tsv")
    held.write_text("".join(f"{one}\t{other}\n" for one, other in apart), encoding="utf-8")
    print(f"{len(kept)} pairs kept, {len(apart)} in {held}; dropped: {dict(dropped)}")


def main() -> None:
    """One of the two steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    steps = parser.add_subparsers(required=True, dest="step")
    first = steps.add_parser("sentences")
    first.add_argument("texts", nargs="+", type=Path)
    first.add_argument("--leave-out", nargs="*", type=Path, default=[])
    first.add_argument("--language", default="en")
    first.add_argument("--output", type=Path, required=True)
    second = steps.add_parser("pairs")
    second.add_argument("source", type=Path)
    second.add_argument("answers", type=Path)
    second.add_argument("--target", default="")
    given = parser.parse_args()
    if given.step == "sentences":
        sentences(given.texts, given.leave_out, given.output, given.language)
    else:
        pairs(given.source, given.answers, given.target)


if __name__ == "__main__":
    main()
