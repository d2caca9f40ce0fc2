"""The tokens that may stand at one position, for `return_alternatives`: csrc/search/expansion.h."""

from __future__ import annotations

from sharpbeam.search.native import NativeSearch


class Expansion(NativeSearch):
    """One step after the prefix of each request: a hypothesis is the prefix and one more token, the likeliest first."""

    kind = "expansion"
