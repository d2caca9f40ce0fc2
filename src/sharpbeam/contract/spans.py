# ruff: noqa: RUF001 (signs of many scripts)
"""Sentences with protected spans: each is in the answer byte for byte, exactly as often as in the source.

A sentence is decoded with stand-ins that models copy, which shows where the spans belong, and without the spans. The
first answer is taken where the model is surer of it, as of "Visit https://x.y for details.". Otherwise the spans go to
their places in the second one, with short words that govern them ("on x.com"), or by attention where the two answers
differ or stand-ins are not copied once each. The last step appends and removes what a decoder has lost or repeated.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from sharpbeam.contract.answers import Change, changed_answer, changed_source, changed_text
from sharpbeam.contract.steps import Job, Steps
from sharpbeam.contract.words import word_attention, words
from sharpbeam.decoding.results import Answer, Translation
from sharpbeam.text.flags import Flag
from sharpbeam.text.glossary import spaceless
from sharpbeam.text.spans import NO_WORD, Span, kept, whole

SURER = 0.02  # by so much log probability of a token (docs/lab/text.md)
FEW_WORDS = 3  # of which a model makes less than of the same with a stand-in
MOST_GOVERNING = 2  # words before a span that go with it, as "in the" does
LIKELY = 2.25  # words that may be between the place of a stand-in and that by attention (docs/lab/text.md)
OTHER = 0.5  # of a neighbor, on its other side
LOST = 0.8  # attention to a word that is translated by none
LONG = 6  # letters of words that are none of these
# Of these, surely numbers: the likelier answer may not have the number's word in its form, or no place for it.
_COUNT = re.compile(r"%\S{0,20}[diu]|\W*(?:n|\w*(?:count|num|total|amount|quantity)\w*)\W*", re.I)
Where = Callable[[int], tuple[int, str]]  # the place of a span, and the words that are written before it
_ARTICLE = "the|an?|his|her|its|my|our|your|this|um|uma|os?|der|die|das|el|las?|los?|les?|il"
_AFTER_ARTICLE = re.compile(rf"(?<!\w)(?:{_ARTICLE})\s\Z", re.I)
_BEFORE_NOUN = re.compile(rf"\s(?:{_ARTICLE})(?=\s\w)")
_GOVERNED = re.compile(rf"(?<!\w)(?!(?:{_ARTICLE}|that)\s)[^\W\d_]{{1,4}}\s\Z", re.I)  # a short word, no article
MANY = 64  # spans: a list rather than a sentence, which is decoded with its stand-ins alone
STAND_INS = ("X{}", "471{}")  # which the models measured copy in 97 and 98 of 100 sentences
_COUNTED = ("{", "%", "$")  # placeholders, which are numbers more often than names: "{n} cars" is not "carros X1"
_SIGNS = ".,;:!?…)]。、，"


def span_steps(text: str, spans: Sequence[Span], attends: bool, changes: Mapping[str, Any]) -> Steps[Translation]:
    """The translation of a sentence with its spans in their places.

    `attends`: the model has attention. `changes` are those of the options.
    """
    if all(span.soft for span in spans):
        (answer,) = yield [Job(text, dict(changes))]
        if kept(text, answer.text, spans):
            return answer
    names = _names(text, spans, STAND_INS)
    masked_text, bare_text = _written(text, spans, names)[0], _written(text, spans, [""] * len(spans))[0]
    if len(spans) > MANY:
        (masked,) = yield [Job(masked_text, {**changes, "return_attention": False})]  # of thousands of tags
        return _filled(text, masked, spans, names, None)
    scores = {"return_scores": True, **changes}
    bare = [Job(bare_text, scores | ({"return_attention": True} if attends else {}))]
    bare = bare if any(map(str.isalpha, bare_text)) else []
    masked, *others = yield [Job(masked_text, scores), *bare]
    if not _copied(masked.text, names):
        again = _names(text, spans, STAND_INS[::-1])
        (other,) = yield [Job(_written(text, spans, again)[0], scores)]
        if _copied(other.text, again):
            masked, names = other, again
    with_names = _filled(text, masked, spans, names, None)
    guide = masked.text if _copied(masked.text, names) else None
    flags: tuple[Flag, ...] | None = None if guide is not None or (attends and others) else ("span",)  # in no place
    if not others:
        return replace(with_names, sentence_flags=flags)
    without = _filled(text, others[0], spans, names, guide)
    surer = len(bare_text.split()) < FEW_WORDS or any(any(_glued(text, span)) for span in spans)
    sure, plain = (sum(one.token_scores) / max(1, len(one.token_scores)) for one in (masked, others[0]))
    surer = surer or sure > plain + SURER or any(_COUNT.fullmatch(span.text) for span in spans)
    first, second = (with_names, without) if surer and guide is not None else (without, with_names)
    best = second if kept(text, second.text, spans) and not kept(text, first.text, spans) else first
    return replace(best, sentence_flags=flags)


def with_spans(source: str, answer: Answer, spans: Sequence[Span]) -> Answer:
    """The answer with each span: those that it lacks are at its end, and copies beyond those of the source are removed.

    Copies of what may be a word, as a name that the user protects, stay: another word may be translated by it.
    """
    if not spans:
        return answer
    pattern = re.compile("|".join(map(whole, sorted({span.text for span in spans}, key=len, reverse=True))))
    least = Counter(span.text for span in spans)
    filled = changed_text(source, [Change(span.start, span.end, span.text) for span in spans])
    most = least | Counter(pattern.findall(filled))
    count: Counter[str] = Counter()
    changes = []
    for match in pattern.finditer(answer.text):
        count[match[0]] += 1
        if count[match[0]] > most[match[0]] and NO_WORD.search(match[0]):
            changes.append(Change(*match.span(), ""))
    if missing := list((least - count).elements()):
        place = len(answer.text.rstrip())
        changes.append(Change(place, place, " " * (place > 0) + " ".join(missing)))
    return changed_answer(answer, changes) if changes else answer


def _names(text: str, spans: Sequence[Span], forms: Sequence[str]) -> list[str]:
    """Stand-ins that are not in the text: of the first form, and of the second one for placeholders."""
    names, number = list[str](), 0
    for span in spans:
        number += 1
        while (name := forms[span.text.startswith(_COUNTED)].format(number)) in text:
            number += 1
        names.append(name)
    return names


def _copied(text: str, names: Sequence[str]) -> bool:
    """Whether each stand-in is in the text once."""
    return all(len(_places(text, name)) == 1 for name in names)


def _glued(text: str, span: Span) -> tuple[bool, bool]:
    """Whether a letter or digit is right before the span, and after it: without the span it is another word."""
    return text[max(0, span.start - 1) : span.start].isalnum(), text[span.end : span.end + 1].isalnum()


def _places(text: str, name: str) -> list[tuple[int, int]]:
    """Ranges of a name, which may be glued to a word; repeated without a space it is there once."""
    before = r"(?<!\d)" if name[:1].isdigit() else ""
    return [match.span() for match in re.finditer(rf"{before}(?:{name})+(?!\d)", text)] if name else []


def _written(text: str, spans: Sequence[Span], names: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """The text with a name, or nothing, in the place of each span, and the ranges of these names."""
    written, at = "", 0
    places = []
    for span, name in zip(spans, names, strict=True):
        written += text[at : span.start]
        at = span.end
        if not name:  # no two spaces, and none before a sign
            following = text[at : at + 1]
            if written[-1:].isspace() and (not following or following.isspace() or following in _SIGNS):
                written = written[:-1]
            elif not written and following.isspace():
                at += 1
        places.append((len(written), len(written) + len(name)))
        written += name
    written += text[at:]
    return written, [(min(start, len(written)), min(end, len(written))) for start, end in places]


def _filled(
    text: str, translation: Translation, spans: Sequence[Span], names: Sequence[str], guide: str | None
) -> Translation:
    """The translation of `text` from that of a text in which its spans have names, or are left out.

    A span takes the place of its name. One without has the place of its name in the answer `guide`, or by attention.
    """
    bare = names[0] not in translation.source
    masked = [""] * len(names) if bare else list(names)
    places = _written(text, spans, masked)[1]

    def filled(answer: Answer) -> Answer:
        where = _between(translation, answer, places, guide if bare else None, names)
        changes = []
        for number, (name, span) in enumerate(zip(masked, spans, strict=True)):
            if spots := _places(answer.text, name):
                changes += [Change(*spots[0], span.text), *(Change(*spot, "") for spot in spots[1:])]
            else:
                place, governing = where(number)
                change = _insertion(answer.text, place, span, text)
                if change.text[0] == " " and _GOVERNED.search(text[max(0, span.start - LONG) : span.start]):
                    changes.append(Change(change.start, change.start, governing))
                changes.append(change)
        apart: list[Change] = []
        for change in sorted(changes, key=lambda change: (change.start, change.end)):
            last = apart[-1].end if apart else 0  # no span goes into another one
            apart.append(Change(max(change.start, last), max(change.end, last), change.text))
        return changed_answer(answer, apart)

    changes = [Change(*place, span.text) for place, span in zip(places, spans, strict=True)]
    answers = tuple(map(filled, translation.hypotheses))
    return changed_source(replace(translation, hypotheses=answers), text, changes)


def _insertion(text: str, place: int, span: Span, source: str) -> Change:
    """A span after the word that `place` is in or at the end of, with a space where the source has one."""
    while 0 < place < len(text) and not (text[place].isspace() or text[place] in _SIGNS or spaceless(text[place])):
        place += 1
    article = _AFTER_ARTICLE.search(source[: span.start]) and _BEFORE_NOUN.match(text, place)
    if article and not _AFTER_ARTICLE.search(text[:place] + " "):  # it attends to the noun, and has no other before it
        place = article.end()
    left, right = _glued(source, span)
    before, after = source[max(0, span.start - 1) : span.start], source[span.end : span.end + 1]
    left = left or (before.strip() != "" and text[max(0, place - 1) : place] == before)  # :func:`x`
    right = right or (after.strip() != "" and text[place + 1 : place + 2] == after)  # `x`_
    space, end = "" if left or not place else " ", place
    if right and text[place : place + 1].isspace():
        end += 1
    return Change(place, end, space + span.text + ("" if place or right else " "))


def _guided(guide: str, text: str, names: Sequence[str]) -> Callable[[int], tuple[int | None, str]]:
    """Words of a text before what `guide` has names for, or None, and short words there that the text lacks."""
    spots = [_places(guide, name)[0] for name in names]
    left = [word for word in words(guide) if not any(start < word[1] and word[0] < end for start, end in spots)]
    ours, theirs = ([whole[start:end] for start, end in own] for whole, own in ((guide, left), (text, words(text))))
    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    same = {-1: -1} | {a + at: b + at for a, b, size in blocks for at in range(size)} | {len(ours): len(theirs)}

    def place(number: int) -> tuple[int | None, str]:
        word = sum(end <= spots[number][0] for _, end in left)
        last = max(at for at in same if at < word)
        before, after = same[last] + 1, same.get(word)
        lacking = ours[last + 1 : word]
        own, following = ours[max(0, word - 1) : word], ours[word : word + 1]
        if last + 1 == word and own == following != theirs[before : before + 1] and "".join(own).isalpha():
            before, lacking = before - 1, own  # "of X1 of", which is "of"
        elif before != after:
            anchor = own if after is None else following
            if (last + 1 == word) != (after is None) or (anchor and not anchor[0].isalnum()):
                return None, ""
            before, lacking = (before if after is None else after), []
        short = len(lacking) <= MOST_GOVERNING and all(len(each) < LONG and each.islower() for each in lacking)
        return before, "".join(f" {each}" for each in lacking if short)

    return place


def _between(
    translation: Translation, answer: Answer, places: Sequence[tuple[int, int]], guide: str | None, names: Sequence[str]
) -> Where:
    """Places in an answer: little attention crosses them, much is of neighbors, and `guide` counts as LIKELY words."""
    attention = word_attention(translation.source, answer.text, replace(translation, hypotheses=(answer,)))
    guided = _guided(guide, answer.text, names) if guide is not None else None
    likely = LIKELY if translation.attention else np.inf

    def place(number: int) -> tuple[int, str]:
        word = sum(start < places[number][0] for start, _ in attention.source)
        weights = attention.weights / np.maximum(1.0, attention.weights.sum(0))
        gain = weights[:, :word].sum(1) - weights[:, word:].sum(1)  # of a word that is before the place
        own, other = weights[:, max(0, word - 1) : word].sum(1), weights[:, word : word + 1].sum(1)
        after, before = own + OTHER * other, other + OTHER * own  # of a word that is right before, or after the place
        score = np.append(0.0, np.cumsum(gain)) + np.append(0.0, after) + np.append(before, 0.0)
        model, lacking = guided(number) if guided else (None, "")
        if model is not None:
            score[model] += likely
        best = int(np.argmax(score))
        lost = not translation.attention or attention.weights[:, :word][:, -1:].sum() < LOST
        return attention.target[best - 1][1] if best else 0, lacking if lost and best == model else ""

    return place
