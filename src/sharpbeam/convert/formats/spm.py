"""SentencePiece models: their pieces, and those that belong to a model whose own files are pieces and numbers only."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import sentencepiece

from sharpbeam.errors import ModelError
from sharpbeam.text.lines import read_whole
from sharpbeam.text.pieces import PieceVocabulary

_BPE = ("sentencepiece.bpe.model", "sentencepiece.model")
_SHARED = (*_BPE, "spm.model", "shared.spm", "joint.spm.model", "spiece.model")
_NAMES = {"source": ("source.spm", "src.spm.model", *_SHARED), "target": ("target.spm", "tgt.spm.model", *_SHARED)}


@dataclass(frozen=True)
class Pieces:
    """Serialized SentencePiece models; None: text is pieces with spaces between."""

    source: bytes | None
    target: bytes | None

    @classmethod
    def find(cls, folder: Path, source: Path | None, target: Path | None) -> Pieces:
        """Those that were given, else those that lie in `folder` under a usual name. Raises ModelError."""
        target = target or source
        models = {}
        for side, named in (("source", source), ("target", target)):
            usual = (folder / name for name in _NAMES[side])
            path = named or next((one for one in usual if one.is_file()), None)
            models[side] = read_spm(path)[0] if path else None
        return cls(models["source"], models["target"])

    @property
    def one(self) -> bool:
        """Whether both sides cut text alike."""
        return self.source == self.target

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user."""
        if self.source is None or self.target is None:
            return (
                "It has no SentencePiece model: text is pieces with spaces between. Give --source-spm, --target-spm.",
            )
        return ()

    def vocabulary(
        self, side: str, words: Sequence[str], ids: Mapping[str, int], silent: Collection[int]
    ) -> PieceVocabulary:
        """The vocabulary of one side."""
        return PieceVocabulary(words, ids, silent, self.source if side == "source" else self.target)


def read_spm(path: Path) -> tuple[bytes, list[str]]:
    """The bytes of a SentencePiece model, and its pieces by id; ModelError if it is none, or a piece no text."""
    try:
        data = read_whole(path)
        return data, read_pieces(data)
    except OSError as error:
        raise ModelError(f"cannot read the SentencePiece model {path}: {error.strerror or error}.") from error
    except (RuntimeError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} is not a SentencePiece model of pieces in UTF-8; copy it again.") from error


def read_pieces(data: bytes) -> list[str]:
    """The pieces by id of a serialized SentencePiece model; RuntimeError if it is none."""
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(data)
    return [processor.IdToPiece(i) for i in range(processor.GetPieceSize())]
