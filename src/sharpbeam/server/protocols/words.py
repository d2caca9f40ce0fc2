"""Words of a translated sentence: where they are, how sure the model is, and which source words they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sharpbeam.contract.words import piece_ranges
from sharpbeam.decoding.results import Answer, Translation
from sharpbeam.documents import Sentence
from sharpbeam.documents.confidence import confidence

SPACE = "\u2581"  # with which SentencePiece begins a word


def sentence_details(sentence: Sentence, translation: Translation) -> dict[str, Any]:
    """A sentence and its translation, what the guards say of it, and their words.

    A sentence has `confidence` (0 to 1: the share of its words that a reference is expected to have), and so has each
    word of a translation, with `source` (indices of source words). A word has `begin` and `end` (characters of its
    sentence). A repaired translation has no words.
    """
    facts: dict[str, Any] = {"source": sentence.source, "translation": sentence.text, "flags": sentence.flags}
    facts["confidence"] = round(sentence.confidence, 4)
    source, answer = sentence.source, translation.hypotheses[0]
    if sentence.repaired or answer.text != sentence.text:
        return {**facts, "repaired": sentence.repaired, "words": [], "source_words": []}
    groups, source_groups = _groups(answer.tokens), _groups(translation.source_tokens)
    source_spans = _spans(source, translation.source_tokens, source_groups)
    aligned = _aligned(answer, groups, source_groups)
    spans = _spans(answer.text, answer.tokens, groups)
    words = [
        {
            "begin": begin,
            "end": end,
            "confidence": round(confidence(sum(answer.token_scores[n] for n in group)), 4),
            "source": sources,
        }
        for (begin, end), group, sources in zip(spans, groups, aligned, strict=True)
    ]
    return {
        **facts,
        "repaired": False,
        "score": None if answer.score is None else round(answer.score, 4),
        "words": words,
        "source_words": [{"begin": begin, "end": end} for begin, end in source_spans],
    }


def _groups(tokens: Sequence[str]) -> list[range]:
    """The tokens of each word."""
    begins = [n for n, token in enumerate(tokens) if n == 0 or token.startswith(SPACE)]
    return [range(begin, end) for begin, end in zip(begins, [*begins[1:], len(tokens)], strict=False)]


def _spans(text: str, tokens: Sequence[str], groups: list[range]) -> list[tuple[int, int]]:
    """Begin and end of each word in the text."""
    ranges = piece_ranges(tokens, text)
    return [(ranges[group[0]][0], ranges[group[-1]][1]) for group in groups]


def _aligned(answer: Answer, groups: list[range], source_groups: list[range]) -> list[list[int]]:
    """The source words of each word."""
    word_of = {token: number for number, group in enumerate(source_groups) for token in group}
    pairs = [(target, word_of[source]) for source, target in answer.alignment or () if source in word_of]
    return [sorted({source for target, source in pairs if target in group}) for group in groups]
