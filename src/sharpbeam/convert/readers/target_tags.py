"""Pieces >>code<< of OPUS-MT, <2code> of MADLAD-400, for several target languages: one stands before the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sharpbeam.text.pieces import tag_code


@dataclass(frozen=True)
class TargetTags:
    """The tags of a model."""

    source_silent: set[int]  # ids that are no text of the source
    target_silent: set[int]  # and of the target
    facts: dict[str, Any]  # of TransformerConfig; with a vocabulary for each side a text has to name its tag itself

    @classmethod
    def find(cls, source: Sequence[str], target_size: int, shared: bool) -> TargetTags:
        """Those among the `source` pieces; `shared` where the target has the same pieces, or the first of them."""
        ids = {code: token for token, piece in enumerate(source) if (code := tag_code(piece))}
        silent, named = set(ids.values()), shared and bool(ids)
        facts = {"languages": ids if named else {}, "source_tag": "target" if named else "none", "target_tag": False}
        return cls(silent, {token for token in silent if shared and token < target_size}, facts)
