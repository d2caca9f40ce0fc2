"""The words of Hugging Face's MarianMT, M2M100 and NLLB: SentencePiece models, and which id each piece has.

* MarianMT: source.spm, target.spm, and vocab.json for both sides (or target_vocab.json for the target). Models with
  several target languages have pieces >>code<<.
* M2M100: sentencepiece.bpe.model and vocab.json; after them a token __code__ for each language, and some unused ones.
* NLLB: sentencepiece.bpe.model, whose pieces are one id higher, after <s> <pad> </s> <unk>; then the languages'
  tokens, whose ids tokenizer.json has, and <mask>.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sharpbeam.convert.converted import check_same_words
from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.json import WORDS, check_words, read_json
from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.convert.readers.target_tags import TargetTags
from sharpbeam.errors import ModelError
from sharpbeam.text.pieces import PieceVocabulary

# The order of the language tokens of M2M-100 (Fan et al. 2020) and of Facebook's models for WMT21, of which the files
# of these models name none.
_LANGUAGES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu "
        "hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt "
        "ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}
_NLLB_CLASSES = ("NllbTokenizer", "NllbTokenizerFast")
_BEGIN_NLLB = ("<s>", "<pad>", "</s>", "<unk>")
_MASK = "<mask>"
SourceTag = Literal["none", "source", "target", "source-behind"]  # vocabulary: stored


@dataclass(frozen=True)
class Words:
    """The vocabularies of a model, and what its config says of them."""

    source: PieceVocabulary
    target: PieceVocabulary
    special: Mapping[str, int]
    languages: dict[str, int]
    source_language: str
    target_language: str
    source_tag: SourceTag
    target_tag: bool

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of TransformerConfig on tokens and languages."""
        names = ("languages", "source_language", "target_language", "source_tag", "target_tag")
        return {**self.special, **{name: getattr(self, name) for name in names}}


def read_words(folder: Path, kind: str, source_size: int, target_size: int, special: Mapping[str, int]) -> Words:
    """The words of the model in `folder`, for so many rows of its embeddings; `special` lacks unk. ModelError."""
    path = folder / "tokenizer_config.json"
    said = Facts(path, read_json(path) if path.is_file() else {})
    if kind == "marian":
        return _marian(folder, said, source_size, target_size, special)
    # One class of weights has several tokenizers, which differ in the ids of words and in where languages' tags stand.
    if said.text("tokenizer_class"):
        read = said.choice("tokenizer_class", {"M2M100Tokenizer": _m2m, **dict.fromkeys(_NLLB_CLASSES, _nllb)})
    else:
        read = _m2m if (folder / "vocab.json").is_file() else _nllb
    return read(folder, said, source_size, special)


def _marian(folder: Path, said: Facts, source_size: int, target_size: int, special: Mapping[str, int]) -> Words:
    apart = said.flag("separate_vocabs")
    files = ("vocab.json", "target_vocab.json" if apart else "vocab.json")
    source, target = (_read_ids(folder / file) for file in files)
    source_pieces, target_pieces = _by_id(source, source_size), _by_id(target, target_size)
    unk = _id_of(folder / files[1], target, said.text("unk_token") or "<unk>")
    special = {"unk_id": unk, **special}
    check_same_words(folder, source_pieces, target_pieces, special)
    tags = TargetTags.find(source_pieces, target_size, shared=not apart)
    return Words(
        PieceVocabulary(source_pieces, special, tags.source_silent, read_spm(folder / "source.spm")[0]),
        PieceVocabulary(target_pieces, special, tags.target_silent, read_spm(folder / "target.spm")[0]),
        special,
        source_language="",
        target_language="",
        **tags.facts,
    )


def _m2m(folder: Path, said: Facts, size: int, special: Mapping[str, int]) -> Words:
    ids = _read_ids(folder / "vocab.json")
    codes = said.choice("language_codes", _LANGUAGES) if said.get("language_codes") else _LANGUAGES["m2m100"]
    first = len(ids)
    languages = {code: first + i for i, code in enumerate(codes.split())}
    pieces = ids | {f"__{code}__": token for code, token in languages.items()}
    special = {"unk_id": _id_of(folder / "vocab.json", ids, said.text("unk_token") or "<unk>"), **special}
    return _multilingual(folder, said, _by_id(pieces, size), special, languages, "source")


def _nllb(folder: Path, said: Facts, size: int, special: Mapping[str, int]) -> Words:
    spm = read_spm(folder / "sentencepiece.bpe.model")[1]
    pieces = dict(zip(_BEGIN_NLLB, range(4), strict=True))
    pieces |= {piece: i + 1 for i, piece in enumerate(spm) if i >= 3}
    languages = {code: token for code, token in _added(folder, len(spm) + 1) if token > len(spm) and code != _MASK}
    special = {"unk_id": 3, **special}
    tag: SourceTag = "source-behind" if said.flag("legacy_behaviour") else "source"  # vocabulary: stored
    return _multilingual(folder, said, _by_id(pieces | languages, size), special, languages, tag)


def _multilingual(
    folder: Path,
    said: Facts,
    pieces: list[str],
    special: Mapping[str, int],
    languages: dict[str, int],
    tag: SourceTag,
) -> Words:
    """The words of a model with a vocabulary for all languages."""
    outside = [code for code, token in languages.items() if token >= len(pieces)]
    if not languages or outside:
        what = f"language {outside[0]!r} has a token outside the embedding" if outside else "it names no languages"
        raise ModelError(f"{folder}: {what}; its tokenizer files are not those of the weights.")
    words = PieceVocabulary(pieces, special, languages.values(), read_spm(folder / "sentencepiece.bpe.model")[0])
    # src_lang and tgt_lang of tokenizer_config.json are whatever the tokenizer was saved with, so nothing is a default.
    return Words(words, words, special, languages, "", "", tag, True)


def _added(folder: Path, first: int) -> Iterable[tuple[str, int]]:
    """The tokens that a tokenizer has next to its pieces, and their ids: written there, or by their order."""
    path = folder / "tokenizer.json"
    if path.is_file():
        added = read_json(path, WORDS).get("added_tokens")
        if not isinstance(added, list) or not all(isinstance(entry, dict) for entry in added):
            raise ModelError(f"{path}: added_tokens must be a list of objects.")
        found = [(entry.get("content"), entry.get("id")) for entry in added]
        if not all(isinstance(text, str) and type(token) is int and token >= 0 for text, token in found):
            raise ModelError(f"{path}: each of added_tokens must have content and id.")
        check_words(path, (text for text, _ in found))
        return found
    path = folder / "special_tokens_map.json"
    listed = read_json(path).get("additional_special_tokens") if path.is_file() else None
    if not isinstance(listed, list) or not all(isinstance(code, str) for code in listed):
        raise ModelError(f"{folder} has neither tokenizer.json nor a list of languages in special_tokens_map.json.")
    check_words(path, listed)
    return [(code, first + i) for i, code in enumerate(listed)]


def _read_ids(path: Path) -> dict[str, int]:
    """Pieces and their ids; raises ModelError for ids that are no numbers, or given twice."""
    found = read_json(path, WORDS)
    if not all(type(token) is int and token >= 0 for token in found.values()):
        raise ModelError(f"{path} must give each piece an id of 0 or more.")
    if len(set(found.values())) != len(found):
        raise ModelError(f"{path} gives an id to two pieces.")
    check_words(path, found)
    return found


def _id_of(path: Path, ids: Mapping[str, int], piece: str) -> int:
    if piece not in ids:
        raise ModelError(f"{path} lacks the piece {piece!r} for unknown words.")
    return ids[piece]


def _by_id(ids: Mapping[str, int], size: int) -> list[str]:
    """The piece of each of `size` ids; those without one get a name that no text has."""
    too_high = [piece for piece, token in ids.items() if token >= size]
    if too_high:
        raise ModelError(
            f"the vocabulary gives {too_high[0]!r:.40} the id {ids[too_high[0]]}, but the embedding has {size} rows; "
            "the files are not of one model."
        )
    pieces = [f"<unused {i}>" for i in range(size)]
    for piece, token in ids.items():
        pieces[token] = piece
    return pieces
