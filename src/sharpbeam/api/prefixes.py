"""What translations have to begin with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sharpbeam.api.inputs import check_texts
from sharpbeam.errors import InputError
from sharpbeam.text.vocabulary import Vocabulary
from sharpbeam.types import Prefix

Prefixes = Sequence[str | None] | str | None


def encode_prefixes(
    prefixes: Prefixes, count: int, vocabulary: Vocabulary, max_length: int, tag: Sequence[int] = ()
) -> dict[int, Prefix]:
    """The tokens of those of `count` texts that have a prefix; they add nothing to the score of an answer.

    `tag` is what every translation begins with in any case.

    Raises InputError where the prefixes are not one for each text, and where one leaves no room below `max_length`.
    """
    if prefixes is None or isinstance(prefixes, str):
        prefixes = [prefixes] * count
    if not isinstance(prefixes, Sequence):
        raise InputError(f"target_prefix is {prefixes!r}; give a text, or a list with a text or None for each.")
    check_texts(["" if prefix is None else prefix for prefix in prefixes], "target prefix")
    if len(prefixes) != count:
        raise InputError(f"there are {len(prefixes)} target prefixes for {count} texts; give one, or None, for each.")
    encoded: dict[int, Prefix] = {}
    for index, prefix in enumerate(prefixes):
        tokens = [*tag, *(vocabulary.encode(prefix) if prefix else [])]
        if len(tokens) >= max_length:
            raise InputError(
                f"target prefix {index} has {len(tokens)} tokens; it must have fewer than max_length ({max_length}). "
                "Give a shorter one, or raise max_length."
            )
        if tokens:
            encoded[index] = Prefix(np.array(tokens, np.int32), np.zeros(len(tokens), np.float32))
    return encoded
