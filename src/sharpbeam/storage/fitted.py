"""The fitted artifacts for the output layer of the model in a folder: `output_layers.registry.Artifacts`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sharpbeam.errors import OptionError
from sharpbeam.output_layers.fitted import Net, Screens, Shortlist
from sharpbeam.output_layers.proven import LowBit
from sharpbeam.storage.low_bit import read_low_bit
from sharpbeam.storage.nets import read_net
from sharpbeam.storage.screens import read_screens
from sharpbeam.storage.shortlists import read_shortlist, shortlist_identity
from sharpbeam.types import Floats


@dataclass(frozen=True)
class FolderArtifacts:
    """The artifacts in `folder`, each checked to be made for this model; ModelError where there is no sound one."""

    folder: Path
    weight: Floats  # output matrix [V, D]
    bias: Floats  # [V]
    vocabularies: tuple[bytes, bytes] | None = None  # source and target, serialized; None: the model has none
    source_vocab: int = 0

    def low_bit(self) -> LowBit:
        """The low-bit preview of the output matrix."""
        return LowBit.from_arrays(read_low_bit(self.folder, self.weight, self.bias))

    def screens(self) -> Screens:
        """The screen, or one for each target language or direction."""
        return read_screens(self.folder, self.weight, self.bias)

    def shortlist(self) -> Shortlist:
        """The lexical shortlist; OptionError for an output matrix alone, which knows no source."""
        if self.vocabularies is None:
            raise OptionError(
                f"{self.folder} holds an output matrix without a source; a shortlist is for the sources of a "
                "translation model."
            )
        identity = shortlist_identity(self.weight, self.bias, *self.vocabularies)
        return read_shortlist(self.folder, identity, self.source_vocab, len(self.weight))

    def net(self) -> Net:
        """The safety net of the shortlist."""
        return read_net(self.folder, self.weight, self.bias)
