"""Alternatives at one place of a translation, each completed by itself (`return_alternatives`, as in CTranslate2).

First each request is given the likeliest words at the place behind its prefix; then each of them, as part of a longer
prefix, becomes a request of its own, with one answer. So the answers are different translations at that place, and not
small changes at the end. They stand in the order of the probability of their word, which counts in their scores, unlike
the rest of the prefix. (CTranslate2 adds the score of the word to that of the rest after the length penalty.)
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np

from sharpbeam.types import Hypothesis, Prefix, Request

Results = Generator[tuple[int, list[Hypothesis]], None, None]
Run = Callable[[list[Request]], Results]


def decode_alternatives(requests: Sequence[Request], expand: Run, complete: Run) -> Results:
    """Yield (request index, its alternatives) as they are done.

    `expand` runs requests with search/expansion.py, `complete` with a search that gives one hypothesis.
    """
    owner: list[tuple[int, int]] = []  # request and alternative that each new request stands for
    parts: list[Request] = []
    answers: dict[int, list[Hypothesis | None]] = {}
    expanded = dict(expand(list(requests)))
    for request in requests:
        # Where no word is allowed, the search says what to do with the request as it is.
        prefixes: list[Prefix | None] = [_prefix(hypothesis) for hypothesis in expanded[request.index]]
        prefixes = prefixes or [request.prefix]
        answers[request.index] = [None] * len(prefixes)
        for number, prefix in enumerate(prefixes):
            parts.append(replace(request, index=len(parts), prefix=prefix))
            owner.append((request.index, number))
    with closing(complete(parts)) as results:
        for part, (best,) in results:
            index, number = owner[part]
            answers[index][number] = replace(best, request=index)
            found = [answer for answer in answers[index] if answer is not None]
            if len(found) == len(answers[index]):
                yield index, found


def _prefix(hypothesis: Hypothesis) -> Prefix:
    return Prefix(np.array(hypothesis.tokens, np.int32), np.array(hypothesis.token_log_probs, np.float32))
