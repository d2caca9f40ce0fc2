"""Counts the names that titles know: src/sharpbeam/text/names/en.txt.

    python recipes/names.py TEXT.gz src/sharpbeam/text/names/en.txt

TEXT.gz holds paragraphs in UTF-8, one a line; the list in the package is of 330,750 paragraphs of English Wikipedia.
Words are counted inside of sentences, where a capital letter means a name. Of the 30,000 words that most paragraphs
have, the list holds three groups: those with a capital half as often as not, twice, and nearly ten times as often
(logarithms of the odds of -0.75, 0.75 and 2.25), each in its usual spelling, in the order of the alphabet.
"""

import gzip
import re
import sys
from collections import Counter
from math import log
from pathlib import Path
from textwrap import fill

WORD = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*|[^\w\s]|\d+")
POSSESSIVE = re.compile(r"['\u2019]s$")
MOST = 30_000  # words
LAST_LATIN = "\u024f"

paragraphs: Counter[str] = Counter()  # that have the word
small: Counter[str] = Counter()
capital: Counter[str] = Counter()
capitals: Counter[str] = Counter()  # all its letters


def count(paragraph: str) -> None:
    """Counts the words of a paragraph that do not begin a sentence."""
    begins, seen = True, set()
    for word in WORD.findall(paragraph):
        if not word[0].isalpha():
            begins = begins or word in '.!?:"\u201c'
            continue
        if not begins:
            name = POSSESSIVE.sub("", word).replace("\u2019", "'") if len(word) > 2 else word
            spelling = small if name[0].islower() else capitals if name.isupper() and len(name) > 1 else capital
            spelling[name.lower()] += 1
            seen.add(name.lower())
        begins = False
    paragraphs.update(seen)


def groups() -> list[list[str]]:
    """The names of each group."""
    names: list[list[str]] = [[], [], []]
    for word in sorted(paragraphs, key=lambda word: (-paragraphs[word], word))[:MOST]:
        odds = log((capital[word] + capitals[word] + 1) / (small[word] + 1))
        group = min(3, round((odds + 1.5) / 1.5))
        if group < 1 or len(word) < 2 or max(word) > LAST_LATIN or len(word.upper()) != len(word):
            continue
        large = capitals[word] > 2 * (small[word] + capital[word])
        names[group - 1].append(word.upper() if large else word[0].upper() + word[1:])
    return names


if __name__ == "__main__":
    with gzip.open(sys.argv[1], "rt", encoding="utf-8") as text:
        for line in text:
            count(line)
    lines = (fill(" ".join(sorted(group)), 120, break_long_words=False, break_on_hyphens=False) for group in groups())
    Path(sys.argv[2]).write_text("\n\n".join(lines) + "\n", encoding="utf-8")
