"""Words of a translated sentence: where they are, how sure the model is, and which source words they come from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from sharpbeam.decoding.results import Answer
from sharpbeam.server.service import Sentence, Translated

SPACE = "\u2581"  # with which SentencePiece begins a word


def sentence_details(done: Translated) -> list[dict[str, Any]]:
    """For each sentence its source and translation with their words.

    A word has `begin` and `end` (characters of its sentence); one of a translation also `confidence` (0 to 1, the
    probability of its tokens) and `source` (indices of source words).
    """
    return [_details(sentence) for sentence in done.sentences]


def _details(sentence: Sentence) -> dict[str, Any]:
    translation = sentence.translation
    answer = translation.hypotheses[0]
    groups, source_groups = _groups(answer.tokens), _groups(translation.source_tokens)
    spans = _spans(answer.text, answer.tokens, groups)
    direct = sentence.first is None  # through a pivot, the source of the last model is no text of the client
    source_spans = _spans(sentence.source, translation.source_tokens, source_groups) if direct else []
    aligned = _aligned(answer, groups, source_groups) if source_spans else [[] for _ in groups]
    words = [
        {"begin": begin, "end": end, "confidence": round(_confidence(answer, group), 4), "source": sources}
        for (begin, end), group, sources in zip(spans, groups, aligned, strict=False)
    ]
    return {
        "source": sentence.source,
        "translation": answer.text,
        "score": round(answer.score, 4),
        "words": words,
        "source_words": [{"begin": begin, "end": end} for begin, end in source_spans],
    }


def _groups(tokens: Sequence[str]) -> list[range]:
    """The tokens of each word."""
    begins = [n for n, token in enumerate(tokens) if n == 0 or token.startswith(SPACE)]
    return [range(begin, end) for begin, end in zip(begins, [*begins[1:], len(tokens)], strict=False)]


def _spans(text: str, tokens: Sequence[str], groups: list[range]) -> list[tuple[int, int]]:
    """Begin and end of each word in the text; none where the tokens do not spell it (unknown characters)."""
    spans, end = [], 0
    for group in groups:
        word = "".join(tokens[n] for n in group).replace(SPACE, " ").strip()
        begin = text.find(word, end)
        if begin < 0 or text[end:begin].strip():
            return []
        end = begin + len(word)
        spans.append((begin, end))
    return spans


def _aligned(answer: Answer, groups: list[range], source_groups: list[range]) -> list[list[int]]:
    """The source words of each word."""
    word_of = {token: number for number, group in enumerate(source_groups) for token in group}
    pairs = [(target, word_of[source]) for source, target in answer.alignment or () if source in word_of]
    return [sorted({source for target, source in pairs if target in group}) for group in groups]


def _confidence(answer: Answer, group: range) -> float:
    return math.exp(min(0.0, sum(answer.token_scores[n] for n in group)))
