"""SentencePiece models: their pieces, and those that belong to a model whose own files are pieces and numbers only."""

from __future__ import annotations

from pathlib import Path

import sentencepiece

from sharpbeam.convert.formats.files import reading
from sharpbeam.errors import ModelError
from sharpbeam.text.lines import read_whole

_BPE = ("sentencepiece.bpe.model", "sentencepiece.model")
_SHARED = (*_BPE, "spm.model", "shared.spm", "joint.spm.model", "spiece.model")
_NAMES = (("source.spm", "src.spm.model", *_SHARED), ("target.spm", "tgt.spm.model", *_SHARED))


def find_spms(folder: Path, source: Path | None, target: Path | None) -> tuple[bytes | None, bytes | None]:
    """The models `source` and `target` (by default the source's), or those in `folder` with a usual name.

    Raises ModelError for a file that is no SentencePiece model.
    """
    paths = [source, target or source]
    for side, names in enumerate(_NAMES):
        usual = (folder / name for name in names)
        paths[side] = paths[side] or next((path for path in usual if path.is_file()), None)
    one, other = (read_spm(path)[0] if path else None for path in paths)
    return one, other


def read_spm(path: Path) -> tuple[bytes, list[str]]:
    """The bytes of a SentencePiece model, and its pieces by id; ModelError if it is none, or a piece no text."""
    processor = sentencepiece.SentencePieceProcessor()
    with reading(path, "a SentencePiece model of pieces in UTF-8", RuntimeError, UnicodeDecodeError):
        data = read_whole(path, ModelError)
        processor.LoadFromSerializedProto(data)
        return data, [processor.IdToPiece(i) for i in range(processor.GetPieceSize())]
