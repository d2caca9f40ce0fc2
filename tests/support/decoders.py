"""Decoders without a model, for documents: each is a function from a text to its translation."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from sharpbeam.contract.steps import Steps
from sharpbeam.decoding.results import EMPTY, Translation

R = TypeVar("R")
_HOSTILE = ("<script>alert(1)</script>", "</p>", "&amp;", '"', "'>", "-->", "]]>", "a", "日本", "<!--")
Decoder = Callable[[str], Translation]


def answer(source: str, target: str, order: list[int] | None = None) -> Translation:
    """A translation whose word i attended to word order[i] of the source, for texts of words and single spaces."""
    left, right = source.split(), target.split()
    order = list(range(len(right))) if order is None else order
    rows = [[float(column == place) for column in range(len(left))] + [0.0] for place in order]
    attention = tuple(map(tuple, [*rows, [0.0] * len(left) + [1.0]]))
    tokens = tuple("▁" + word for word in right)
    outcome = replace(EMPTY, text=target, tokens=tokens, token_scores=(-0.1,) * (len(right) + 1), attention=attention)
    return Translation(source, (outcome,), source_tokens=tuple("▁" + word for word in left))


def foreign(text: str) -> str:
    """Other words; those with a digit and signs stay."""
    return re.sub(r"\b[^\W\d_]+\b", lambda word: word[0] + "x", text)


def same(source: str) -> Translation:
    """The source itself."""
    return answer(source, source)


def reverse(source: str) -> Translation:
    """The words in reverse order, with their attention."""
    words = source.split()
    order = list(reversed(range(len(words))))
    return answer(source, " ".join(words[index] for index in order), order)


def hostile(source: str) -> Translation:
    """A text that would be markup if it were not escaped, with attention that means nothing; the same every time."""
    draw = random.Random(source)
    words = draw.choices(
        ["<script>alert(1)</script>", "</p>", "&amp;", '"', "'>", "-->", "]]>", "a", "日本", "<!--"], k=6
    )
    return answer(source, " ".join(words), [draw.randrange(max(1, len(source.split()))) for _ in words])


def _without(translation: Translation, changes: Mapping[str, Any]) -> Translation:
    """A translation without attention if a job asks for none."""
    if changes.get("return_attention", True):
        return translation
    return replace(translation, hypotheses=tuple(replace(one, attention=None) for one in translation.hypotheses))


def run(steps: Steps[R], decode: Decoder) -> R:
    """The result of `steps` with this decoder."""
    try:
        jobs = next(steps)
        while True:
            jobs = steps.send([_without(decode(job.text), job.changes) for job in jobs])
    except StopIteration as done:
        result: R = done.value
        return result
