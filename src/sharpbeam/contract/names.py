"""Names in titles and in text in capitals: which words keep a capital letter when the sentence is decoded.

A word is the likelier a name the rarer it is in lower case, if its translation is a copy of it, and if that has a
capital letter where all words of the source have; and the more often a list of the language has it as a name. The
weights are logistic regressions on titles of newstest2012. Nouns of German have capitals by their spelling alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from math import exp
from typing import Any

from sharpbeam.contract.answers import Change, changed_text
from sharpbeam.contract.steps import Job, Steps, together
from sharpbeam.contract.words import word_attention
from sharpbeam.decoding.results import Translation
from sharpbeam.text.case import LONG_WORD, NOUNS, RARER, WORD, Case, abbreviation, capitalized, known_names, lower

KNOWN = 12.0  # rarity of words that are about one piece: of others it says less, and a copy more
CAPITAL = 2.1
LISTED = 0.6  # the weight of all this where there is a list of names
LIKELY = -1.4, -0.5, 0.4, 1.3, 2.2  # logarithms of odds that names must have, for five ways to write the sentence
SURENESS = 2.0  # of the mean log probability of tokens, next to likeness to the other answers

Decode = Callable[[str, Mapping[str, Any]], Steps[Translation]]


def named_steps(
    case: Case, language: str, rarity: Callable[[str], float], attends: bool, changes: Mapping[str, Any], decode: Decode
) -> Steps[Translation]:
    """The translation of a sentence in lower case with fewer or more names: the one most like the others."""
    places = [place for place in case.words if case.text[slice(*place)][1:].islower()]
    if not places:
        return (yield from decode(case.text, changes))

    def written(forms: Sequence[str]) -> str:
        return changed_text(case.text, [Change(*place, form) for place, form in zip(places, forms, strict=True)])

    words = [lower(case.text[start:end], language) for start, end in places]
    names = [capitalized(word, language) for word in words]
    once = {**changes, "num_hypotheses": 1, "return_attention": attends}
    low, high = yield [Job(written(words), once), Job(written(names), once)]
    known, copied, capitals = known_names(language), set(WORD.findall(low.text.lower())), _capitals(high)
    odds = []
    for index, (word, (start, _)) in enumerate(zip(words, places, strict=True)):
        same, capital = word in copied, (start in capitals if attends else 0.5)
        usual, name, large = map(rarity, (word, names[index], short := abbreviation(word, language, rarity)))
        odd = _odds(usual, name, same, capital, len(word) < LONG_WORD)
        spelling, often = known.get(word.removesuffix("'s").removesuffix("\u2019s"), ("", 0))
        odds.append(usual - name if language in NOUNS else LISTED * odd + often - 0.4 if known else odd)
        names[index] = short if spelling.isupper() else names[index]
        if (same or capital == 1) and usual != name and large < min(usual, name) + RARER:  # an abbreviation
            words[index] = names[index] = short
    near = [0.0, *(1 / (1 + exp(-odd)) for odd in odds), 0.0]  # how likely neighbors are names
    if language not in NOUNS:
        odds = [odd + sum(near[at : at + 3 : 2]) - 0.4 for at, odd in enumerate(odds)]
    texts = [written([pair[odd > least] for *pair, odd in zip(words, names, odds, strict=True)]) for least in LIKELY]
    distinct = list(dict.fromkeys(texts))
    scores = {**changes, "return_scores": True} if len(distinct) > 1 else changes
    answers = dict(zip(distinct, (yield from together([decode(text, scores) for text in distinct])), strict=True))
    every = [answers[text].text.split() for text in texts]

    def worth(answer: Translation) -> float:
        likeness = (SequenceMatcher(None, answer.text.split(), other, autojunk=False).ratio() for other in every)
        sureness = sum(answer.token_scores) / max(1, len(answer.token_scores))
        return sum(likeness) / len(every) + SURENESS * sureness

    return max(answers.values(), key=worth)


def _odds(rarity: float, name: float, copied: bool, capital: float, short: bool) -> float:
    """The logarithm of the odds that a word is a name, from the rarity of its spellings and what the model does."""
    known = min(rarity, name) < KNOWN
    most = 4.0 if known else 2.0
    odds = 0.9 * max(-most, min(rarity - name, most)) + CAPITAL * capital - 2.0 * short - 2.5
    return odds + copied * (1.7 if known else 2.8)


def _capitals(translation: Translation) -> set[int]:
    """Where words begin whose translations have capital letters, but for the first one's."""
    text, attention = translation.text, word_attention(translation.source, translation.text, translation)
    pairs = zip(attention.target, attention.weights, strict=True)
    return {attention.source[row.argmax()][0] for (at, _), row in pairs if at and text[at].isupper() and row.size}
