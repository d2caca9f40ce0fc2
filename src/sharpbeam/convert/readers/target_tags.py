"""Pieces >>code<< of OPUS-MT, <2code> of MADLAD-400, for several target languages: one stands before the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sharpbeam.text.pieces import tag_code


@dataclass(frozen=True)
class TargetTags:
    """The tags of a model: their ids by code, and which of them are no text on either side."""

    ids: dict[str, int]
    shared: bool
    target_size: int

    @classmethod
    def find(cls, source: Sequence[str], target_size: int, shared: bool) -> TargetTags:
        """Those among the `source` pieces; `shared` where the target has the same pieces, or the first of them."""
        codes = ((tag_code(piece), token) for token, piece in enumerate(source))
        return cls({code: token for code, token in codes if code}, shared, target_size)

    @property
    def source_silent(self) -> set[int]:
        """Ids that are no text of the source."""
        return set(self.ids.values())

    @property
    def target_silent(self) -> set[int]:
        """Ids that are no text of the target."""
        return {token for token in self.ids.values() if self.shared and token < self.target_size}

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of TransformerConfig on them; with a vocabulary for each side a text has to name its tag itself."""
        named = self.shared and bool(self.ids)
        return {
            "languages": self.ids if named else {},
            "source_tag": "target" if named else "none",
            "target_tag": False,
        }
