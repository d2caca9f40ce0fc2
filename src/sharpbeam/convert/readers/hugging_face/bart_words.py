"""The words of BART: byte-level BPE, in vocab.json and merges.txt or in tokenizer.json."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.readers.hugging_face.words import Words, added_tokens, by_id, check_ids, id_of, read_ids
from sharpbeam.errors import ModelError
from sharpbeam.text.json import WORDS, check_words, read_json
from sharpbeam.text.lines import read_whole
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


def read_bart_words(folder: Path, kind: str, source_size: int, target_size: int, special: Mapping[str, int]) -> Words:
    """The words of the model in `folder`, for this many rows of its embeddings; `special` lacks unk. ModelError."""
    path = folder / "tokenizer_config.json"
    Facts(path, read_json(path) if path.is_file() else {}).require("add_prefix_space", [False])
    if (folder / "merges.txt").is_file() and (folder / "vocab.json").is_file():
        path, silent = folder / "vocab.json", {_MASK}
        ids, merges = read_ids(path), _read_merges(folder / "merges.txt")
    else:
        path = folder / "tokenizer.json"
        ids, merges = _read_tokenizer(path)
        added = dict(added_tokens(folder, 0))
        ids, silent = check_ids(path, {**ids, **added}), added.keys() | {_MASK}
    special = {"unk_id": id_of(path, ids, "<unk>"), **special}
    silent_ids = {ids[piece] for piece in silent | {_BEGIN} if piece in ids} - set(special.values())
    words = PieceVocabulary(by_id(ids, source_size), special, silent_ids, None, merges)
    begin = (id_of(path, ids, _BEGIN),)
    return Words(words, words, special, {}, "", "", "none", False, source_begin=begin)


def _read_merges(path: Path) -> list[str]:
    """The pairs in merges.txt, without the line of its version."""
    try:
        lines = read_whole(path, WORDS).decode("utf-8").split("\n")
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path} is not UTF-8 ({error}); copy it again.") from error
    return [line.removesuffix("\r") for line in lines if line.strip() and not line.startswith("#version")]


def _read_tokenizer(path: Path) -> tuple[dict[str, int], list[str]]:
    """Pieces with their ids, and merges, of a tokenizer.json; raises ModelError if it is no byte-level BPE."""
    whole = Facts(path, read_json(path, WORDS))
    whole.require("normalizer", [])
    parts: dict[str, Facts] = {}
    for name, allowed in (("model", _MODEL), ("pre_tokenizer", _CUTTER)):
        part: Any = whole.get(name)
        if not isinstance(part, dict) or "type" not in part:
            raise whole.refusal(name, f"an object of type {allowed['type'][0]}")
        parts[name] = Facts(path, part)
        for fact, values in allowed.items():
            parts[name].require(fact, values)
    vocab, merges = parts["model"].get("vocab"), parts["model"].get("merges")
    if not isinstance(vocab, dict) or not isinstance(merges, list):
        raise ModelError(f"{path}: model must have vocab, an object, and merges, a list.")
    joined = [" ".join(merge) if _is_pair(merge) else merge for merge in merges]
    if not all(isinstance(merge, str) for merge in joined):
        raise ModelError(f"{path}: each of merges must be two pieces.")
    check_words(path, joined)
    return check_ids(path, vocab), joined


def _is_pair(merge: Any) -> bool:
    return isinstance(merge, list) and len(merge) == 2 and all(isinstance(piece, str) for piece in merge)
