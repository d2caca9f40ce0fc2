"""Terms of a glossary that are not in a translation: the words that attended to them are replaced.

Decoding puts terms where they belong. What is left are those that it cannot: the vocabulary cannot write them, the
sentence was cut, or the words around them came in another way.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sharpbeam.contract.answers import Change, changed_answer
from sharpbeam.contract.words import word_attention
from sharpbeam.decoding.results import Translation
from sharpbeam.text.glossary import Glossary, lacking


def with_terms(translation: Translation, glossary: Glossary) -> Translation:
    """The translation with each term, instead of the run of words that attended most to it."""
    source, text = translation.source, translation.text
    terms = lacking(glossary.find(source), text)
    if not terms:
        return translation
    attention, changes = word_attention(source, text, translation), list[Change]()
    for term in terms:
        inside = [term.start <= start < term.end for start, _ in attention.source]
        share = attention.weights @ np.array(inside, np.float64)
        first = last = int(share.argmax()) if len(share) else 0
        while first > 0 and share[first - 1] > 0.5:
            first -= 1
        while last + 1 < len(share) and share[last + 1] > 0.5:
            last += 1
        place = (attention.target[first][0], attention.target[last][1]) if len(share) else (0, 0)
        changes.append(Change(*place, term.forms[0]))
    apart, end = list[Change](), 0
    for change in sorted(changes, key=lambda change: (change.start, change.end)):
        space = " " if change.start < end else ""  # two terms have one place
        apart.append(Change(max(change.start, end), max(change.end, end), space + change.text))
        end = apart[-1].end
    return replace(translation, hypotheses=(changed_answer(translation.hypotheses[0], apart),))
