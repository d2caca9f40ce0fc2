"""Word vocabularies: a closed list of words separated by spaces, everything else is <unk>."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from sharpbeam.errors import InputError, ModelError
from sharpbeam.text.json import WORDS, read_json
from sharpbeam.text.pieces import PieceVocabulary
from sharpbeam.text.sentencepiece import SPECIAL_IDS, UNK_ID

SPECIAL_WORDS = ("<unk>", "<s>", "</s>", "<pad>")  # ids 0 to 3, as in our SentencePiece vocabularies


class WordVocabulary(PieceVocabulary):
    """Words with ids from 0; the first four are the special words. `encode(decode(ids)) == ids` for all other ids."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words` begins with the special words. A repeated word, or one with a space in it, raises InputError."""
        self.words = tuple(words)
        if self.words[: len(SPECIAL_WORDS)] != SPECIAL_WORDS:
            raise InputError(f"a word vocabulary must begin with {' '.join(SPECIAL_WORDS)}, not {self.words[:4]!r}.")
        ids: dict[str, int] = {}
        for i, word in enumerate(self.words):
            if not isinstance(word, str) or word.split() != [word]:
                raise InputError(f"word {i} is {word!r}; a word must be text without spaces.")
            if ids.setdefault(word, i) != i:
                raise InputError(f"word {word!r} stands twice, as {ids[word]} and {i}.")
        super().__init__(self.words, SPECIAL_IDS, (), None)
        self._ids = {word: i for word, i in ids.items() if word not in SPECIAL_WORDS}

    @classmethod
    def build(cls, lines: Iterable[str], size: int, least: int = 1) -> WordVocabulary:
        """The `size` - 4 most frequent words of `lines` (equal counts: by spelling) after the special words.

        Words that come less than `least` times are left out.
        """
        counts = Counter(word for line in lines for word in line.split())
        often = [word for word, count in counts.items() if count >= least and word not in SPECIAL_WORDS]
        ranked = sorted(often, key=lambda word: (-counts[word], word))
        return cls([*SPECIAL_WORDS, *ranked[: max(size - len(SPECIAL_WORDS), 0)]])

    @classmethod
    def load(cls, path: Path) -> WordVocabulary:
        """Read a file of `serialized`; anything else raises ModelError."""
        words = read_json(path, WORDS).get("words")
        if not isinstance(words, list):
            raise ModelError(f"{path} is not a word vocabulary: 'words' is {words!r:.40}; it must be a list.")
        try:
            return cls(words)
        except (TypeError, InputError) as error:
            raise ModelError(f"{path} is not a word vocabulary: {error}") from error

    def encode(self, text: str) -> list[int]:
        """Text -> ids, no bos or eos; a word that is not in the list is unk: a corpus has many."""
        return [self._ids.get(word, UNK_ID) for word in text.split()]

    @property
    def serialized(self) -> bytes:
        """The bytes of the file that `load` reads."""
        return (json.dumps({"words": self.words}, ensure_ascii=False, indent=0) + "\n").encode()
