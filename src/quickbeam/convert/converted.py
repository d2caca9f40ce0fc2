"""A model of another program in our terms, and its way into a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quickbeam.models.folder import save_model
from quickbeam.models.transformer.config import TransformerConfig
from quickbeam.text.pieces import PieceVocabulary
from quickbeam.types import Floats

SUPPRESSED_BIAS = -1000.0
"""What is added to the logit of a word that the normaliser must not count: its probability is 0 in float32."""


@dataclass(frozen=True)
class Converted:
    """All that a model folder needs."""

    origin: str  # the format it came from, for people
    config: TransformerConfig
    tensors: Mapping[str, Floats]
    source: PieceVocabulary
    target: PieceVocabulary
    notes: tuple[str, ...] = ()  # what a user should know, a sentence each

    @property
    def summary(self) -> str:
        """Its size, for people."""
        c = self.config
        words = (
            f"{len(self.source)} words"
            if self.source is self.target
            else f"{len(self.source)} and {len(self.target)} words"
        )
        millions = sum(tensor.size for tensor in self.tensors.values()) / 1e6
        layers = f"{c.encoder_layers}+{c.decoder_layers} layers of width {c.hidden_dim}"
        languages = f", {len(c.languages)} languages" if c.languages else ""
        return f"{self.origin}, {layers}, {words}{languages}, {millions:.1f} million weights"

    def save(self, folder: Path, name: str) -> None:
        """Write the model folder; `name` is what the model is called in its card."""
        files = _files("source", self.source)
        if self.target is not self.source:
            files |= _files("target", self.target)
        notes = "".join(f"* {note}\n" for note in self.notes)
        card = f"# {name}\n\nConverted from {self.origin} by `quickbeam convert`. Its licence is that of its origin.\n"
        save_model(folder, self.config, self.tensors, files, card + (notes and f"\n{notes}"))


def _files(side: str, vocabulary: PieceVocabulary) -> dict[str, bytes]:
    files = {f"{side}.pieces.json": vocabulary.listed}
    if vocabulary.spm is not None:
        files[f"{side}.spm"] = vocabulary.spm
    return files
