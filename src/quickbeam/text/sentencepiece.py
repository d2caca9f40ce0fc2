"""SentencePiece vocabularies: text <-> ids, and their training."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import sentencepiece

from quickbeam.errors import ModelError

UNK_ID, BOS_ID, EOS_ID, PAD_ID = 0, 1, 2, 3


class SentencePieceVocabulary:
    """A SentencePiece model read from a file. Ids are SentencePiece's own: unk 0, bos 1, eos 2, pad 3 in ours."""

    def __init__(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ModelError(f"cannot read the vocabulary {path}: {error.strerror or error}.") from error
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(data)
        except RuntimeError as error:
            raise ModelError(f"{path} is not a SentencePiece model; restore or convert the model again.") from error
        self.serialized = data

    def __len__(self) -> int:
        return int(self._processor.GetPieceSize())

    def encode(self, text: str) -> list[int]:
        """Text -> ids, no bos or eos. NUL is read as a space, since SentencePiece ends the text there."""
        return list(self._processor.EncodeAsIds(text.replace("\0", " ")))

    def decode(self, ids: Sequence[int]) -> str:
        """Ids -> text; bos, eos and pad are silent."""
        return str(self._processor.DecodeIds([int(i) for i in ids]))

    def piece(self, token: int) -> str:
        """The piece of one id."""
        return str(self._processor.IdToPiece(int(token)))

    def save(self, path: Path) -> None:
        """Write the model beside `path`, then rename."""
        beside = path.with_name(path.name + ".new")
        beside.write_bytes(self.serialized)
        os.replace(beside, path)


def train_sentencepiece(lines: Iterable[str], path: Path, size: int, coverage: float, seed: int) -> None:
    """Train a unigram model of `size` pieces on `lines`, written to `path`; the same lines and seed give the same."""
    sentencepiece.set_random_generator_seed(seed)
    beside = path.with_name(path.name + ".new")
    with beside.open("wb") as out:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(lines),
            model_writer=out,
            vocab_size=size,
            model_type="unigram",
            character_coverage=coverage,
            unk_id=UNK_ID,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            pad_id=PAD_ID,
            num_threads=1,  # more threads change the model
            minloglevel=2,
        )
    os.replace(beside, path)
