"""SentencePiece vocabularies: text <-> ids, and their training."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from sharpbeam._core import call_native
from sharpbeam.errors import InputError, ModelError
from sharpbeam.text.lines import read_whole

UNK_ID, BOS_ID, EOS_ID, PAD_ID = range(4)
SPECIAL_IDS: Any = {"unk_id": UNK_ID, "bos_id": BOS_ID, "eos_id": EOS_ID, "pad_id": PAD_ID}
PLAIN = {**dict.fromkeys("\u2018\u2019\u201a", "'"), **dict.fromkeys("\u201c\u201d\u201e\xab\xbb", '"')}
PLAIN |= dict.fromkeys("\u2011\u2013\u2014\u2212", "-")
_UNSEEN = (0x00AD, 0x2060)


class SentencePieceVocabulary:
    """A SentencePiece model read from a file. Ids are SentencePiece's own: unk 0, bos 1, eos 2, pad 3 in ours."""

    def __init__(self, path: Path) -> None:
        self.serialized = read_whole(path, ModelError)
        """The bytes of the file."""
        self._processor = open_processor(self.serialized, str(path))
        self._written = plain_signs(lambda sign: self._processor.unk_id() in self._processor.EncodeAsIds(sign))

    def __len__(self) -> int:
        return int(self._processor.GetPieceSize())

    @property
    def special_ids(self) -> dict[str, int]:
        """Ids of those of unk_id, bos_id, eos_id and pad_id that the model has."""
        ids = {name: int(getattr(self._processor, name)()) for name in ("unk_id", "bos_id", "eos_id", "pad_id")}
        return {name: token for name, token in ids.items() if token >= 0}

    def encode(self, text: str) -> list[int]:
        """Text -> ids, no bos or eos, of what `plain_signs` makes of it."""
        return list(call_native(self._processor.EncodeAsIds, self._written(text)))

    def decode(self, ids: Sequence[int]) -> str:
        """Ids -> text; bos, eos and pad are silent."""
        return str(call_native(self._processor.DecodeIds, list(map(int, ids))))

    def piece(self, token: int) -> str:
        """The piece of one id."""
        return str(call_native(self._processor.IdToPiece, int(token)))

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """The piece of each id."""
        return tuple(call_native(self._processor.IdToPiece, list(map(int, ids))))

    def token(self, piece: str) -> int:
        """The id of one piece, that of unk if there is none."""
        return int(call_native(self._processor.PieceToId, piece))


def plain_signs(lacks: Callable[[str], bool]) -> Callable[[str], str]:
    """A text with plain quotes and dashes for those that a vocabulary `lacks`; and without NUL, which would end it.

    Soft hyphens and word joiners, which only say where a line may end, would make other words.
    """
    signs = {ord(sign): plain for sign, plain in PLAIN.items() if lacks(sign)} | dict.fromkeys(_UNSEEN, "")
    return lambda text: (text if text.isascii() else text.translate(signs)).replace("\0", " ")


def open_processor(data: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    """A processor of a serialized model, which errors call `name`; raises ModelError."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(data)
    except RuntimeError as error:
        raise ModelError(f"{name} is not a SentencePiece model; restore or convert the model again.") from error
    return processor


def train_sentencepiece(
    lines: Iterable[str], name: str, size: int, coverage: float, seed: int, symbols: Sequence[str] = ()
) -> bytes:
    """Train a unigram model of `size` pieces on `lines`; the same lines and seed give the same bytes.

    `name` is what errors call it; `symbols` are pieces besides those of the text, and count. Raises InputError where
    the text does not allow `size`, saying which sizes it does.
    """
    sentencepiece.set_random_generator_seed(seed)
    out = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.Train(
            sentence_iterator=iter(lines),
            model_writer=out,
            vocab_size=size,
            model_type="unigram",
            character_coverage=coverage,
            **SPECIAL_IDS,
            user_defined_symbols=list(symbols),
            num_threads=1,  # more threads change the model
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _refusal(str(error), name, size) from error
    return out.getvalue()


def _refusal(message: str, name: str, size: int) -> InputError:
    """SentencePiece's complaint about a text, in our words."""
    if "!sentences_.empty()" in message:
        return InputError(f"cannot make {name}: the text has no line with a word in it; check files and columns.")
    if match := re.search(r"to a value <= (\d+)", message):
        return InputError(
            f"vocabulary.size is {size}; the text for {name} allows at most {match[1]}. Lower it or add text."
        )
    if match := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return InputError(
            f"vocabulary.size is {size}; the text for {name} needs at least {match[1]}, one for each character. "
            "Raise it or lower vocabulary.character_coverage."
        )
    return InputError(f"cannot make {name} with vocabulary.size {size}: {message}")
