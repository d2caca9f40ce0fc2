"""Greedy search and beam search, with cube pruning or without: the rules are in csrc/search/beam.h and cube.h.

tests/reference/beam.py is the same for one request in plain Python, for reading.
"""

from __future__ import annotations

from sharpbeam.options.decode import SearchOptions
from sharpbeam.options.schema import require
from sharpbeam.search.native import NativeSearch


def check_width(options: SearchOptions, vocab_size: int) -> None:
    """Raise OptionError if the beam is wider than the vocabulary."""
    allowed = f"at most {vocab_size}, the size of the model's vocabulary"
    require(options.beam_size <= vocab_size, "beam_size", options.beam_size, allowed)


class BeamSearch(NativeSearch):
    """Beam search of one decoding run, by default as Hugging Face's `generate`; with beam_size 1 greedy search."""

    kind = "beam"
    _decodes = True

    def __init__(self, options: SearchOptions, bos_id: int, eos_id: int, vocab_size: int) -> None:
        """A search of one decoding run; raises OptionError if the beam is wider than the vocabulary."""
        check_width(options, vocab_size)
        super().__init__(options, bos_id, eos_id, vocab_size)
