"""Terms of a glossary as phrases that the answers to a text have to contain."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import lru_cache

from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.options.schema import require
from sharpbeam.text.glossary import Glossary, spaceless
from sharpbeam.text.vocabulary import Vocabulary
from sharpbeam.types import Request

log = logging.getLogger("sharpbeam")
_REFUSED = {"sampling": False, "cube_pruning": "none", "finishing": "leave", "prefix_bias_beta": 0.0, "search": "beam"}
MOST_TOKENS = 1000  # of the forms that one text may require, for the time and memory of the search grow with them
_BEFORE = "a"  # a word before a phrase
_SPACE = "▁"  # what a piece begins with after a space


def for_phrases(options: DecodeOptions) -> DecodeOptions:
    """The options of a search for phrases; raises OptionError for those that do not go with a glossary."""
    for name, allowed in _REFUSED.items():
        value = getattr(options.search, name)
        require(value == allowed, name, value, f"{allowed!r} with a glossary")
    return options if options.search.needs_log_prob else options.changed(return_scores=True)


class PhraseEncoder:
    """Encodes the terms of a glossary for one model; each form once."""

    def __init__(self, loaded: LoadedModel, glossary: Glossary) -> None:
        self._target, self._glossary = loaded.target, glossary
        unknown = loaded.target.special_ids.get("unk_id")
        self._impossible = {unknown, loaded.model.eos_id, *loaded.suppressed}
        self._joins = joining(loaded.target)  # type: ignore[arg-type]  # hashed by identity
        self._encoded: dict[tuple[str, ...], tuple[tuple[int, ...], ...]] = {}

    def request(self, request: Request, text: str) -> Request:
        """The request for `text` with the phrases that its answers have to contain.

        A warning says which terms the vocabulary cannot write, and how many are too many for one text; those are left
        out.
        """
        phrases: list[tuple[tuple[int, ...], ...]] = []
        capacity, excess = MOST_TOKENS, 0
        for forms in self._glossary.required(text):
            if forms not in self._encoded:
                encoded = dict.fromkeys(tokens for form in forms for tokens in self._tokens(form))
                self._encoded[forms] = tuple(t for t in encoded if t and not self._impossible.intersection(t))
                if not self._encoded[forms]:
                    log.warning("the vocabulary cannot write %r of the glossary; it is left out", forms[0])
            size = sum(map(len, self._encoded[forms]))
            if size > capacity:
                excess += 1
            elif size:
                capacity -= size
                phrases.append(self._encoded[forms])
        if excess:
            log.warning("%d terms of the glossary are left out: a text may require %d tokens", excess, MOST_TOKENS)
        return replace(request, phrases=tuple(phrases), joins=self._joins) if phrases else request

    def _tokens(self, form: str) -> list[tuple[int, ...]]:
        """The tokens of a form inside of a sentence, and with a capital letter; without a space before it too."""
        encoded = []
        for text in dict.fromkeys((form, form[:1].upper() + form[1:])):
            encoded += [self._after(" ", text)]
            if spaceless(text[0]):
                encoded += [self._after("", text)]
        return encoded

    def _after(self, gap: str, text: str) -> tuple[int, ...]:
        first, whole = self._target.encode(_BEFORE), self._target.encode(_BEFORE + gap + text)
        same = whole[: len(first)] == first
        return tuple(whole[len(first) :] if same else self._target.encode(text))


@lru_cache(maxsize=8)
def joining(vocabulary: Vocabulary) -> bytes:
    """[V]: 1 for each token that continues the word before it; none does where pieces do not show spaces."""
    pieces = [vocabulary.piece(token) for token in range(len(vocabulary))]
    shown = any(piece[:1] == _SPACE for piece in pieces if piece)
    return bytes(shown and piece[:1].isalnum() and not spaceless(piece) for piece in pieces)
