"""Sample sentences, written for this project: text to fit and to measure on where the user gives none.

Files of 70 sentences a language are in the folder `samples`: news, everyday talk, long sentences, questions, numbers,
names. Text of the kind that is translated is better.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

from sharpbeam.text.sentences import short_code
from sharpbeam.text.vocabulary import Vocabulary

_FOLDER = Path(__file__).parent / "samples"
FEW = 12  # sentences by which a language is recognized
UNKNOWN = 8  # tokens that a character counts as that the vocabulary lacks
# Times the fewest tokens. Samples are not parallel: of a Czech-English vocabulary the Czech sample takes 1.57 times the
# tokens of the English one, the same text 1.03 times.
LIKE = 2.0


@cache
def sample_languages() -> tuple[str, ...]:
    """The codes of the languages that there are sentences of."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.txt")))


def sample(language: str) -> list[str]:
    """The sentences of a language, by its code ("de", "de-AT", "deu_Latn"); of none that is here, English ones."""
    code = {"no": "nb", "nn": "nb"}.get(short := short_code(language), short)  # Norwegian is there as Bokmål
    text = (_FOLDER / f"{code if code in sample_languages() else 'en'}.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip()]


def crossed(sentences: Sequence[str], times: int) -> list[str]:
    """The sentences, then up to `times` as many that begin as one of them and end as another: more of the same kind."""
    cut = [(one, max(one.find(" ", len(one) // 2), len(one) // 2)) for one in sentences]  # not all scripts have spaces
    pairs = (pair for k in range(1, min(times + 1, len(cut))) for pair in zip(cut, cut[k:] + cut[:k], strict=True))
    return [*sentences, *(a[:i] + b[j:] for (a, i), (b, j) in pairs)]


def languages_of(vocabulary: Vocabulary) -> list[str]:
    """The languages whose sentences the vocabulary writes in few tokens, the fewest first: if a model names none."""

    def cost(language: str) -> int:
        tokens = 0
        for line in sample(language)[:FEW]:
            ids = vocabulary.encode(line)
            kept = set(vocabulary.decode(ids))
            tokens += len(ids) + UNKNOWN * sum(letter not in kept for letter in line)
        return tokens

    costs = {language: cost(language) for language in sample_languages()}
    return sorted((each for each in costs if costs[each] <= LIKE * min(costs.values())), key=costs.__getitem__)
