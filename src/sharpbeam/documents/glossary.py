"""Terms of a glossary that are not in the translation of a segment: the words that attended to them are replaced.

Decoding puts terms where they belong. What is left are those that it cannot: the vocabulary cannot write them, the
sentence was cut, or the words around them came in another way.
"""

from __future__ import annotations

from dataclasses import replace

from sharpbeam.documents.segment import Segment, Tag
from sharpbeam.text.glossary import Glossary, Term, lacking

MOST_PAIRS = 100_000


def marked(segment: Segment, glossary: Glossary | None, translation: str = "") -> Segment:
    """The segment with a tag at each term that the translation lacks, is in no fixed text and crosses no tag.

    A segment with more than MOST_PAIRS pairs of a term and a tag stays as it is.
    """
    terms = lacking(glossary.find(segment.text), translation) if glossary is not None else []
    if not terms or len(terms) * len(segment.tags) > MOST_PAIRS:
        return segment
    new = [
        term
        for term in terms
        if all(
            term.end <= tag.start
            or tag.end <= term.start
            or (tag.start <= term.start and term.end <= tag.end and not tag.fixed)
            for tag in segment.tags
        )
    ]
    return _with(segment, new) if new else segment


def _with(segment: Segment, terms: list[Term]) -> Segment:
    """Add tags of terms, each inside of the innermost tag around it."""
    tags = list(segment.tags)
    ordered: list[tuple[tuple[int, int], int, Tag]] = [
        ((tag.start, index), index, tag) for index, tag in enumerate(tags)
    ]
    for term in terms:
        around = max((i for i, tag in enumerate(tags) if tag.start <= term.start and term.end <= tag.end), default=-1)
        # after every tag that opens at the same place, of which it is inside
        new = Tag(term.start, term.end, term.forms[0], parent=around, fixed=True, term=True)
        ordered.append(((term.start, around + len(tags)), -1, new))
    ordered.sort(key=lambda item: item[0])
    places = {old: number for number, (_, old, _) in enumerate(ordered) if old >= 0} | {-1: -1}
    return Segment(segment.text, tuple(replace(tag, parent=places[tag.parent]) for _, _, tag in ordered))
