"""The tokens of Hugging Face's tokenizers: SentencePiece models, and which id each piece has.

* MarianMT: source.spm, target.spm, and vocab.json for both sides (or target_vocab.json for the target). Models with
  several target languages have pieces >>code<<.
* M2M100: sentencepiece.bpe.model and vocab.json; after them a token __code__ for each language, and some unused ones.
  SMaLL-100 has the same, and the tag of the target's language before the source.
* NLLB: sentencepiece.bpe.model, whose pieces are one id higher, after <s> <pad> </s> <unk>; then the languages'
  tokens, whose ids tokenizer.json has, and <mask>.
* mBART: as NLLB, with languages that the class of the tokenizer knows. mBART-50 has the source's tag before the source,
  mBART-cc25 after it, and its decoder starts from the tag of the one language that it translates into.
* T5: spiece.model. After its pieces there are sentinels <extra_id_0>, ... (100, unless tokenizer_config.json has
  another number), the last of them first. Those of MADLAD-400 have tags <2de> of target languages among the pieces.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.convert.readers.tokens import SENTINEL, Tags, TokenLists, Tokens
from sharpbeam.errors import ModelError
from sharpbeam.text.json import WORDS, check_words, read_json

# The order of the language tokens of M2M-100 (Fan et al. 2020), Facebook's models for WMT21, mBART (Liu et al. 2020)
# and mBART-50 (Tang et al. 2020), of which the files of these models name none, or need not.
_MBART = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
)
_MBART_50 = (
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN "
    "te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)
_LANGUAGES = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu "
        "hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt "
        "ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
}
_M2M_CLASSES = ("M2M100Tokenizer", "SMALL100Tokenizer")
_NLLB_CLASSES = ("NllbTokenizer", "NllbTokenizerFast")
_MBART_CLASSES = ("MBartTokenizer", "MBartTokenizerFast", "MBart50Tokenizer", "MBart50TokenizerFast")
_BEGIN_NLLB = ("<s>", "<pad>", "</s>", "<unk>")
_NLLB_CODE = re.compile(r"[a-z]{3}_[A-Z][a-z]{3}")  # others are <mask>, and words that were added


_T5_CLASSES = (
    *("T5Tokenizer", "T5TokenizerFast", "MT5Tokenizer", "MT5TokenizerFast"),
    *("TokenizersBackend", "PreTrainedTokenizerFast"),
)


def read_tokens(folder: Path, kind: str, sizes: Mapping[str, Any], special: Mapping[str, int]) -> Tokens:
    """The tokens of the model in `folder`, whose config has these `sizes`; `special` lacks unk. Raises ModelError."""
    path = folder / "tokenizer_config.json"
    tokenizer = Facts(path, read_json(path) if path.is_file() else {}, {"extra_ids": 100})
    if kind == "marian":
        return _marian(folder, tokenizer, sizes["source_vocab_size"], sizes["target_vocab_size"], special)
    read = _mbart if kind == "mbart" else _t5 if kind != "m2m_100" else _nllb
    # One class of weights has several tokenizers, which differ in the ids of tokens and in the places of tags.
    if kind == "m2m_100" and tokenizer.text("tokenizer_class"):
        classes = {**dict.fromkeys(_M2M_CLASSES, _m2m), **dict.fromkeys(_NLLB_CLASSES, _nllb)}
        read = tokenizer.choice("tokenizer_class", classes)
    elif kind == "m2m_100" and (folder / "vocab.json").is_file():
        read = _m2m
    return read(folder, tokenizer, sizes["source_vocab_size"], special)


def _marian(folder: Path, tokenizer: Facts, source_size: int, target_size: int, special: Mapping[str, int]) -> Tokens:
    shared = not tokenizer.flag("separate_vocabs")
    path = folder / ("vocab.json" if shared else "target_vocab.json")
    source, target = _ids(folder / "vocab.json"), _ids(path)
    spms = (read_spm(folder / f"{side}.spm")[0] for side in ("source", "target"))
    lists = TokenLists(folder, _by_id(source, source_size), _by_id(target, target_size), *spms)
    return lists.tokens(_with_unk(path, tokenizer, target, special), lists.tags(shared))


def _m2m(folder: Path, tokenizer: Facts, size: int, special: Mapping[str, int]) -> Tokens:
    ids = _ids(folder / "vocab.json")
    codes = tokenizer.choice("language_codes", _LANGUAGES) if tokenizer.get("language_codes") else _LANGUAGES["m2m100"]
    first = len(ids)
    languages = {code: first + i for i, code in enumerate(codes.split())}
    pieces = ids | {f"__{code}__": token for code, token in languages.items()}
    special = _with_unk(folder / "vocab.json", tokenizer, ids, special)
    tag = "target" if tokenizer.text("tokenizer_class") == "SMALL100Tokenizer" else "source"
    return _multilingual(folder, pieces, size, special, languages, tag)


def _nllb(folder: Path, tokenizer: Facts, size: int, special: Mapping[str, int]) -> Tokens:
    pieces, first = _fairseq_pieces(folder)
    languages = {code: token for code, token in _added_tokens(folder, first).items() if _NLLB_CODE.fullmatch(code)}
    tag = "source-behind" if tokenizer.flag("legacy_behaviour") else "source"  # vocabulary: stored
    return _multilingual(folder, pieces | languages, size, {"unk_id": 3, **special}, languages, tag)


def _mbart(folder: Path, tokenizer: Facts, size: int, special: Mapping[str, int]) -> Tokens:
    pieces, first = _fairseq_pieces(folder)
    fifty = size >= first + len(f"{_MBART} {_MBART_50}".split())
    if tokenizer.text("tokenizer_class"):
        fifty = tokenizer.choice("tokenizer_class", {name: "50" in name for name in _MBART_CLASSES})
    codes = f"{_MBART} {_MBART_50}" if fifty else _MBART
    languages = {code: first + i for i, code in enumerate(codes.split())}
    target = next((code for code, token in languages.items() if token == special["bos_id"]), "")
    tag = "source" if fifty else "source-behind"  # vocabulary: stored
    return _multilingual(folder, pieces | languages, size, {"unk_id": 3, **special}, languages, tag, target)


def _t5(folder: Path, tokenizer: Facts, size: int, special: Mapping[str, int]) -> Tokens:
    if tokenizer.text("tokenizer_class"):
        tokenizer.choice("tokenizer_class", dict.fromkeys(_T5_CLASSES))
    spm, pieces = _read_spm(path := folder / "spiece.model")
    ids = {piece: token for token, piece in enumerate(pieces)}
    extra = tokenizer.integer("extra_ids")
    if f"{SENTINEL}0>" not in ids and len(pieces) + extra <= size:
        ids |= {f"{SENTINEL}{extra - 1 - i}>": len(pieces) + i for i in range(extra)}
    all_pieces = _by_id(ids, size)
    lists = TokenLists(folder, all_pieces, all_pieces, spm, spm)
    return lists.tokens(_with_unk(path, tokenizer, ids, special), lists.tags(shared=True))


def _read_spm(path: Path) -> tuple[bytes, list[str]]:
    if not path.is_file():
        raise ModelError(
            f"{path.parent} has no {path.name}; copy that of the model that it was made from into the folder."
        )
    return read_spm(path)


def _fairseq_pieces(folder: Path) -> tuple[dict[str, int], int]:
    """The pieces of a SentencePiece model one id higher, after four special ones; and the first id after them."""
    spm = _read_spm(folder / "sentencepiece.bpe.model")[1]
    pieces = dict(zip(_BEGIN_NLLB, range(4), strict=True))
    return pieces | {piece: i + 1 for i, piece in enumerate(spm) if i >= 3}, len(spm) + 1


def _multilingual(
    folder: Path,
    ids: Mapping[str, int],
    size: int,
    special: Mapping[str, int],
    languages: dict[str, int],
    tag: str,
    target: str = "",
) -> Tokens:
    """The tokens of a model with a vocabulary for all languages, for `size` rows of its embedding.

    Each answer begins with the tag of its language, unless the model has one `target` only, or a source names it.
    """
    outside = [code for code, token in languages.items() if token >= size]
    if not languages or outside:
        fault = f"language {outside[0]!r} has a token outside the embedding" if outside else "it names no languages"
        raise ModelError(f"{folder}: {fault}; its tokenizer files are not those of the weights.")
    pieces, (spm, _) = _by_id(ids, size), read_spm(folder / "sentencepiece.bpe.model")
    # src_lang and tgt_lang of tokenizer_config.json are whatever the tokenizer was saved with, so nothing is a default.
    facts: dict[str, Any] = {"languages": languages, "target_language": target, "source_tag": tag}
    facts["target_tag"] = not target and tag != "target"
    tags = Tags(facts, languages.values(), languages.values())
    return TokenLists(folder, pieces, pieces, spm, spm).tokens(special, tags)


def _added_tokens(folder: Path, first: int) -> dict[str, int]:
    """The tokens that a tokenizer has next to its pieces, and their ids: written there, or by their order."""
    path = folder / "tokenizer.json"
    if path.is_file():
        entries = Facts(path, read_json(path, WORDS)).objects("added_tokens")
        tokens = {entry.text("content"): entry.integer("id") for entry in entries}
    else:
        path = folder / "special_tokens_map.json"
        codes = read_json(path).get("additional_special_tokens") if path.is_file() else None
        if not isinstance(codes, list) or not all(isinstance(code, str) for code in codes):
            raise ModelError(f"{folder} has neither tokenizer.json nor a list of languages in special_tokens_map.json.")
        tokens = {code: first + i for i, code in enumerate(codes)}
    check_words(path, tokens)
    return tokens


def _ids(path: Path) -> dict[str, int]:
    """Pieces and their ids; raises ModelError for ids that are no numbers, or of two pieces."""
    ids = read_json(path, WORDS)
    if not all(type(token) is int and token >= 0 for token in ids.values()):
        raise ModelError(f"{path} must give each piece an id of 0 or more.")
    if len(set(ids.values())) != len(ids):
        raise ModelError(f"{path} gives an id to two pieces.")
    check_words(path, ids)
    return ids


def _with_unk(path: Path, tokenizer: Facts, ids: Mapping[str, int], special: Mapping[str, int]) -> dict[str, int]:
    """`special` with the id of the unknown token; raises ModelError if `path`, whose `ids` these are, lacks it."""
    piece = tokenizer.text("unk_token") or "<unk>"
    if piece not in ids:
        raise ModelError(f"{path} lacks the piece {piece!r} for unknown words.")
    return {"unk_id": ids[piece], **special}


def _by_id(ids: Mapping[str, int], size: int) -> list[str]:
    """The piece of each of `size` ids; those without one get a name that no text has."""
    pieces = [f"<unused {i}>" for i in range(size)]
    for piece, token in ids.items():
        if token >= size:
            raise ModelError(
                f"the vocabulary gives {piece!r:.40} the id {token}, but the embedding has {size} rows; the files are "
                "not of one model."
            )
        pieces[token] = piece
    return pieces
