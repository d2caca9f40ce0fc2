"""The tokens of a model: lists for both sides, special ids, and tags of languages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sharpbeam.convert.formats.files import reading
from sharpbeam.convert.formats.weights import Tensor, values, with_zero_row
from sharpbeam.errors import ModelError
from sharpbeam.text.json import WORDS
from sharpbeam.text.lines import read_whole
from sharpbeam.text.pieces import PieceVocabulary, tag_code

SUPPRESSED_BIAS = -1000.0
"""Added to the logit of a token that the normalizer must not count: its probability is 0 in float32."""
START = "<start>"
"""The token that is added for a decoder that starts from no token at all."""

SENTINEL = "<extra_id_"
"""The beginning of the names of T5's tokens for gaps in a text."""


class Tokens(NamedTuple):
    """The vocabularies of a model, and the facts of its config on tokens and languages."""

    source: PieceVocabulary
    target: PieceVocabulary
    facts: dict[str, Any]


class Tags(NamedTuple):
    """Facts of the config on languages, and the ids on each side that are no text."""

    facts: dict[str, Any]
    source: Collection[int]
    target: Collection[int]


NO_SPM = "It has no SentencePiece model: text is pieces with spaces between. Give --source-spm, --target-spm."


@dataclass
class TokenLists:
    """The tokens of both sides by id, and their SentencePiece models; None: text is tokens with spaces between."""

    path: Path  # of the model, for errors
    source: list[str]
    target: list[str]
    source_spm: bytes | None
    target_spm: bytes | None

    def check_sizes(self, sizes: Mapping[str, Any]) -> None:
        """Raise ModelError unless they are as many as the embeddings, whose `sizes` are those of the config."""
        for side, tokens in (("source", self.source), ("target", self.target)):
            if len(tokens) != (rows := sizes[f"{side}_vocab_size"]):
                raise ModelError(
                    f"{self.path}: the {side} vocabulary has {len(tokens)} tokens, the embedding {rows}; the files are "
                    "not of one model."
                )

    def id(self, name: str, token: str) -> int:
        """The target's id of `token`, which the model calls its `name`; raises ModelError if there is none."""
        if token not in self.target:
            raise ModelError(f"{self.path}: {name} is {token!r:.40}, which its vocabulary lacks.")
        return self.target.index(token)

    def add_start(self, tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], int]:
        """The tensors with START, whose embedding is zero and which no normalizer counts, and its id.

        The id is the same on both sides, which have one set of special ids: after the target's tokens, and so among the
        source's if it has more. Raises ModelError if it has fewer.
        """
        start = len(self.target)
        if len(self.source) < start:
            raise ModelError(f"{self.path}: its source vocabulary is smaller than the target's; Sharpbeam lacks that.")
        self.source, self.target = [*self.source[:start], START, *self.source[start:]], [*self.target, START]
        names = ("source_embedding", "target_embedding", "output_weight")
        longer = {name: with_zero_row(tensors[name], start) for name in names if name in tensors}
        bias = np.append(values(tensors["output_bias"]), np.float32(SUPPRESSED_BIAS))
        return {**tensors, **longer, "output_bias": bias}, start

    def tags(self, shared: bool) -> Tags:
        """Pieces >>code<< of OPUS-MT and <2code> of MADLAD-400, of which one stands before each source.

        They name the languages if one vocabulary is `shared`, of which the target may have the first pieces only; else
        each text has to name its tag itself. Sentinels of T5 are no text either.
        """
        ids = {code: token for token, piece in enumerate(self.source) if (code := tag_code(piece))}
        silent = {*ids.values(), *(token for token, piece in enumerate(self.source) if piece.startswith(SENTINEL))}
        if not shared:
            return Tags({}, silent, ())
        facts = {"languages": ids, "source_tag": "target"} if ids else {}
        return Tags(facts, silent, {token for token in silent if token < len(self.target)})

    def tokens(self, ids: Mapping[str, int], tags: Tags | None = None) -> Tokens:
        """The vocabularies with these special ids, and the facts of the config.

        Raises ModelError if an id is another token of the source than of the target: there is one set of ids for both
        sides, and such a token of the source would never be read.
        """
        for name, token in ids.items():
            source, target = (
                repr(side[token])[:40] if token < len(side) else "no token" for side in (self.source, self.target)
            )
            if source != target:
                raise ModelError(
                    f"{self.path}: {name} {token} is {source} in the source vocabulary and {target} in the target's; "
                    "Sharpbeam reads models whose special tokens have the same ids in both."
                )
        tags = tags or Tags({}, (), ())
        one = PieceVocabulary(self.source, ids, tags.source, self.source_spm)
        is_same = self.source == self.target and self.source_spm == self.target_spm
        is_same = is_same and {*tags.source} == {*tags.target}
        other = one if is_same else PieceVocabulary(self.target, ids, tags.target, self.target_spm)
        sizes = {"source_vocab_size": len(self.source), "target_vocab_size": len(self.target)}
        return Tokens(one, other, {**sizes, **ids, **tags.facts})


def read_list(path: Path) -> list[str]:
    """The lines of a text file of tokens; raises ModelError."""
    with reading(path, "a list of words in UTF-8", UnicodeDecodeError):
        text = read_whole(path, ModelError, WORDS).decode("utf-8").removesuffix("\n")
    return [line.removesuffix("\r") for line in text.split("\n")]
