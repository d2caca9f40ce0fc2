"""Checks of what a caller gives a decoding run that is computed by PyTorch."""

from __future__ import annotations

from collections.abc import Container, Sequence

import numpy as np

from sharpbeam.types import Ids, Request


def check_admit(requests: Sequence[Request], admitted: Container[int], vocab_size: int) -> None:
    """Raise ValueError for a request that stands twice or is `admitted`, and for an empty or unknown source."""
    seen = set()
    for request in requests:
        if request.index in admitted or request.index in seen:
            raise ValueError(f"request {request.index} is admitted already; evict it first.")
        if len(request.source) < 1:
            raise ValueError(f"request {request.index} has a source of 0 tokens; it must have 1 or more.")
        check_tokens("source token", request.source, vocab_size)
        seen.add(request.index)


def check_requests(request: Ids, admitted: Container[int]) -> None:
    """Raise ValueError unless every request index is among those `admitted`."""
    for index in request.tolist():
        if index not in admitted:
            raise ValueError(f"request is {index}; it must be one that was admitted and not yet evicted.")


def check_rows(request: Ids, state: Ids, token: Ids, vocab_size: int) -> None:
    """Raise ValueError unless the three have one length and the tokens lie in the vocabulary."""
    if not len(request) == len(state) == len(token):
        raise ValueError(f"request, state and token have {len(request)}, {len(state)} and {len(token)} rows.")
    check_tokens("token", token, vocab_size)


def check_tokens(name: str, token: Ids, vocab_size: int) -> None:
    """Raise ValueError unless every token lies in the vocabulary."""
    bad = (token < 0) | (token >= vocab_size)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"{name} {i} is {token[i]}; it must be between 0 and {vocab_size - 1}.")
