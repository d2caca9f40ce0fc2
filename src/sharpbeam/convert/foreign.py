"""A model of another program in our terms, and its way into a model folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sharpbeam.convert.formats.weights import Tensor, values
from sharpbeam.errors import ModelError, OptionError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.options.decode import SearchOptions
from sharpbeam.options.schema import build
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.storage.artifacts import FolderArtifacts
from sharpbeam.storage.model_folder import save_model
from sharpbeam.text.pieces import PieceVocabulary


@dataclass(frozen=True)
class ForeignModel:
    """All that a model folder needs."""

    origin: str  # the format it came from, human-readable
    config: TransformerConfig
    tensors: Mapping[str, Tensor]
    source: PieceVocabulary
    target: PieceVocabulary
    notes: tuple[str, ...] = ()  # for the user, a sentence each
    shortlist: Shortlist | None = None  # its own
    decoding: Mapping[str, Any] = field(default_factory=dict)  # its own search options, by our names

    @property
    def summary(self) -> str:
        """Its size, for people."""
        c, shared = self.config, self.source is self.target
        tokens = f"{len(self.source)}{'' if shared else f' and {len(self.target)}'} tokens"
        millions = sum(tensor.size for tensor in self.tensors.values()) / 1e6
        layers = f"{c.encoder_layers}+{c.decoder_layers} layers of width {c.hidden_dim}"
        languages = f", languages: {len(c.languages)}" if c.languages else ""
        own = "".join(f", {name}={value}" for name, value in self.decoding.items())
        shortlist = ", with its shortlist" if self.shortlist else ""
        return f"{self.origin}, {layers}, {tokens}{languages}, {millions:.1f} million weights{own}{shortlist}"

    def save(self, folder: Path, name: str) -> None:
        """Write the model folder; `name` is its title in the card."""
        sides = {"source": self.source} | ({} if self.target is self.source else {"target": self.target})
        files = {f"{side}.pieces.json": one.listed for side, one in sides.items()}
        files |= {f"{side}.spm": one.spm for side, one in sides.items() if one.spm is not None}
        notes = "".join(f"* {note}\n" for note in self.notes)
        card = f"# {name}\n\nConverted from {self.origin} by `sharpbeam convert`. Its license is that of its origin.\n"
        card += notes and f"\n{notes}"
        save_model(folder, self.config, self.tensors, files, card, self.decoding, self._save_shortlist)

    def _save_shortlist(self, folder: Path) -> None:
        """Write the shortlist, if there is one, next to the model in `folder`."""
        if self.shortlist is None:
            return
        weight = self.tensors.get("output_weight", self.tensors["target_embedding"])
        output = weight, values(self.tensors["output_bias"])
        vocabularies = (self.source.serialized, self.target.serialized)
        artifacts = FolderArtifacts(folder, *output, vocabularies, len(self.source))
        artifacts.save("shortlist", self.shortlist, {"from": self.origin})


def checked_decoding(path: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Search options that `path` holds, by our names; raises ModelError if they are not sound."""
    try:
        build(SearchOptions, options, "search options")
    except OptionError as error:
        raise ModelError(f"{path}: {error}") from None
    return dict(options)
