"""The words of T5 and its relatives: a SentencePiece model, or the same in a tokenizer.json.

After its pieces there are sentinels <extra_id_0>, ... (100, unless tokenizer_config.json says otherwise), the last of
them first. Those of MADLAD-400 have tags <2de> of target languages among the pieces.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.convert.formats.unigram import read_unigram
from sharpbeam.convert.readers.hugging_face.words import Words, by_id, id_of
from sharpbeam.convert.readers.target_tags import TargetTags
from sharpbeam.errors import ModelError
from sharpbeam.text.json import read_json
from sharpbeam.text.pieces import PieceVocabulary

_CLASSES = ("T5Tokenizer", "T5TokenizerFast", "MT5Tokenizer", "MT5TokenizerFast", "TokenizersBackend")
SENTINEL = "<extra_id_"


def read_t5_words(folder: Path, size: int, special: Mapping[str, int]) -> Words:
    """The words of the model in `folder`, for `size` rows of its embedding; `special` lacks unk. Raises ModelError."""
    path = folder / "tokenizer_config.json"
    tokenizer = Facts(path, read_json(path) if path.is_file() else {}, {"extra_ids": 100})
    if tokenizer.text("tokenizer_class"):
        tokenizer.choice("tokenizer_class", dict.fromkeys((*_CLASSES, "PreTrainedTokenizerFast"), True))
    path = folder / "spiece.model"
    if not path.is_file() and not (path := folder / "tokenizer.json").is_file():
        raise ModelError(f"{folder} has neither spiece.model nor tokenizer.json; give the folder of a whole model.")
    spm, pieces = (read_spm if path.name == "spiece.model" else read_unigram)(path)
    ids = {piece: token for token, piece in enumerate(pieces)}
    extra = tokenizer.integer("extra_ids")
    if f"{SENTINEL}0>" not in ids and len(pieces) + extra <= size:
        ids |= {f"{SENTINEL}{extra - 1 - i}>": len(pieces) + i for i in range(extra)}
    listed = by_id(ids, size)
    special = {"unk_id": id_of(path, ids, tokenizer.text("unk_token") or "<unk>"), **special}
    tags = TargetTags.find(listed, size, shared=True)
    silent = tags.source_silent | {token for piece, token in ids.items() if piece.startswith(SENTINEL)}
    words = PieceVocabulary(listed, special, silent, spm)
    return Words(words, words, special, source_language="", target_language="", **tags.facts)
