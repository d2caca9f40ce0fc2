"""Sampling: answers drawn token by token from the model's distribution; the rules are in csrc/search/sampling.h."""

from __future__ import annotations

import hashlib

import numpy as np

from sharpbeam.options.decode import SamplingOptions, SearchOptions
from sharpbeam.search.native import NativeSearch
from sharpbeam.types import Request


class SamplingSearch(NativeSearch):
    """Sampling of one decoding run. Of the search options, num_hypotheses, lengths, length_penalty and the rules
    against repetition matter.
    """

    kind = "sampling"

    def __init__(
        self, options: SearchOptions, sampling: SamplingOptions, bos_id: int, eos_id: int, vocab_size: int
    ) -> None:
        """A search of one decoding run."""
        super().__init__(options, bos_id, eos_id, vocab_size, sampling)
        self.rows_each = options.num_hypotheses

    def _name(self, request: Request) -> int:
        """A hash of source and prefix: the same text has the same samples, whatever else is in the batch."""
        prefix = request.prefix.token if request.prefix is not None else np.empty(0, np.int32)
        text = b"".join(
            len(ids).to_bytes(8, "little") + ids.astype("<i4").tobytes() for ids in (request.source, prefix)
        )
        return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
