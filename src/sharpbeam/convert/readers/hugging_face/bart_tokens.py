"""The tokens of BART: byte-level BPE, in vocab.json and merges.txt or in tokenizer.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.readers.hugging_face.tokens import (
    added_tokens,
    by_id,
    check_ids,
    id_of,
    read_ids,
    tokenizer_facts,
)
from sharpbeam.convert.readers.tokens import Tokens, read_list
from sharpbeam.errors import ModelError
from sharpbeam.text.json import WORDS, check_words, read_json
from sharpbeam.text.pieces import PieceVocabulary

_BEGIN, _MASK = "<s>", "<mask>"
# The facts of a tokenizer.json of byte-level BPE; anything else cuts text in another way.
_MODEL: dict[str, list[Any]] = {
    "type": ["BPE"],
    "dropout": [],
    "continuing_subword_prefix": [""],
    "end_of_word_suffix": [""],
    "byte_fallback": [False],
    "ignore_merges": [False],
}
_CUTTER: dict[str, list[Any]] = {"type": ["ByteLevel"], "add_prefix_space": [False], "use_regex": [True]}


def read_bart_tokens(folder: Path, size: int, special: Mapping[str, int]) -> Tokens:
    """The tokens of the model in `folder`, for `size` rows of its embedding; `special` lacks unk. Raises ModelError."""
    tokenizer_facts(folder).require("add_prefix_space", [False])
    path, added = folder / "vocab.json", {_MASK}
    if (folder / "merges.txt").is_file() and path.is_file():
        lines = read_list(folder / "merges.txt")
        ids, merges = read_ids(path), [line for line in lines if line.strip() and not line.startswith("#version")]
    else:
        path, tokens = folder / "tokenizer.json", added_tokens(folder, 0)
        ids, merges = _read_tokenizer(path)
        ids, added = check_ids(path, {**ids, **tokens}), {_MASK, *tokens}
    special = {"unk_id": id_of(path, ids, "<unk>"), **special}
    silent = {ids[piece] for piece in added | {_BEGIN} if piece in ids} - set(special.values())
    vocabulary = PieceVocabulary(by_id(ids, size), special, silent, None, merges)
    return Tokens(vocabulary, vocabulary, {**special, "source_begin": (id_of(path, ids, _BEGIN),)})


def _read_tokenizer(path: Path) -> tuple[dict[str, int], list[str]]:
    """Pieces with their ids, and merges, of a tokenizer.json; raises ModelError if it is no byte-level BPE."""
    whole = Facts(path, read_json(path, WORDS))
    whole.require("normalizer", [])
    model, cutter = whole.part("model"), whole.part("pre_tokenizer")
    for part, allowed in ((model, _MODEL), (cutter, _CUTTER)):
        for name, values in allowed.items():
            part.require(name, values)
    vocab, merges = model.get("vocab"), model.get("merges")
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise ModelError(f"{path}: model must have vocab, an object, and merges, a list.")
    joined = [" ".join(merge) if _is_pair(merge) else merge for merge in merges]
    if not all(isinstance(merge, str) for merge in joined):
        raise ModelError(f"{path}: each of merges must be two pieces.")
    check_words(path, joined)
    return check_ids(path, vocab), joined


def _is_pair(merge: Any) -> bool:
    return isinstance(merge, list) and len(merge) == 2 and all(isinstance(piece, str) for piece in merge)
