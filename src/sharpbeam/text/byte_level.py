"""Byte-level BPE (Radford et al. 2019), as BART cuts text; the package `tokenizers` does it."""

from __future__ import annotations

from collections.abc import Sequence

from sharpbeam.errors import ModelError, needs_extra


class ByteLevelBpe:
    """Text <-> pieces, whose letters stand for bytes. A space is the first byte of the word after it."""

    def __init__(self, pieces: Sequence[str], merges: Sequence[str], unk: str) -> None:
        """`merges` are pairs of pieces with a space between, the first to be joined first; `unk` is for other bytes.

        Raises ModelError for a merge whose parts or whole are no pieces, SharpbeamError without `tokenizers`.
        """
        with needs_extra("a vocabulary of byte-level BPE", "tokenizers"):
            from tokenizers import Tokenizer, decoders, models, pre_tokenizers
        ids = {piece: number for number, piece in enumerate(pieces)}
        pairs = []
        for place, merge in enumerate(merges):
            first, _, second = merge.partition(" ")
            if not (first and second) or not {first, second, first + second} <= ids.keys():
                raise ModelError(f"merge {place} of the vocabulary is {merge!r:.60}; it must be two pieces of a third.")
            pairs.append((first, second))
        self._tokenizer = Tokenizer(models.BPE(vocab=ids, merges=pairs, unk_token=unk))
        self._tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        self._decoder = decoders.ByteLevel()

    def cut(self, text: str) -> list[str]:
        """Text -> pieces."""
        pieces: list[str] = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return pieces

    def join(self, pieces: Sequence[str]) -> str:
        """Pieces -> text; bytes that are no UTF-8 become U+FFFD."""
        return str(self._decoder.decode(list(pieces)))
