"""Words of a translated sentence: where they are, how sure the model is, and which source words they come from."""

from __future__ import annotations

from typing import Any

from sharpbeam.documents import Sentence


def sentence_details(sentence: Sentence) -> dict[str, Any]:
    """A sentence and its translation, what the guards say of it, and their words.

    A sentence has `confidence` (0 to 1: the share of its words that a reference is expected to have), and so has each
    word of a translation, with `source` (indices of source words). A word has `begin` and `end` (characters of its
    sentence).
    """
    return {
        "source": sentence.source,
        "translation": sentence.text,
        "flags": sentence.flags,
        "confidence": round(sentence.confidence, 4),
        "repaired": sentence.repaired,
        "words": [
            {"begin": word.start, "end": word.end, "confidence": round(word.confidence, 4), "source": word.sources}
            for word in sentence.words
        ],
        "source_words": [{"begin": begin, "end": end} for begin, end in sentence.source_words],
    }
