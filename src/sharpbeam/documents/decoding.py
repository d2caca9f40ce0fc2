"""Sentences to translations: each distinct one is decoded once, and judged by the guards."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from sharpbeam.contract.guards import Decoded, guarded_steps
from sharpbeam.contract.sentences import Contract, sentence_steps
from sharpbeam.contract.steps import Steps, together
from sharpbeam.decoding.results import EMPTY, Translation
from sharpbeam.text.spans import find_spans


def kept(text: str) -> Decoded:
    """A text that is its own translation."""
    return Decoded.whole(Translation(text, (replace(EMPTY, text=text),)))


def decode_steps(
    fixed: Mapping[str, Collection[str]],
    attended: Collection[str],
    guarded: bool,
    contract: Contract,
) -> Steps[dict[str, Decoded]]:
    """Decode distinct sentences, with attention those that are `attended` or guarded, where the model has it.

    `fixed` has their parts that are not translated, besides protected spans.
    """

    def steps(text: str) -> Steps[Decoded]:
        pattern = re.compile("|".join(map(re.escape, fixed[text]))) if fixed[text] else None
        spans = find_spans(text, pattern)
        attends = contract.attends and (guarded or text in attended)
        own = replace(contract, changes={"return_attention": True} if attends else {})
        if guarded:
            return (yield from guarded_steps(text, spans, own))
        return Decoded.whole((yield from sentence_steps(text, spans, own)))

    return dict(zip(fixed, (yield from together(list(map(steps, fixed)))), strict=True))
