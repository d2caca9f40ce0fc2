"""The tokens of MarianMT, M2M100, NLLB and mBART: SentencePiece models, and which id each piece has.

* MarianMT: source.spm, target.spm, and vocab.json for both sides (or target_vocab.json for the target). Models with
  several target languages have pieces >>code<<.
* M2M100: sentencepiece.bpe.model and vocab.json; after them a token __code__ for each language, and some unused ones.
  SMaLL-100 has the same, and the tag of the target's language before the source.
* NLLB: sentencepiece.bpe.model, whose pieces are one id higher, after <s> <pad> </s> <unk>; then the languages'
  tokens, whose ids tokenizer.json has, and <mask>.
* mBART: as NLLB, with languages that the class of the tokenizer knows. mBART-50 has the source's tag before the source,
  mBART-cc25 after it, and its decoder starts from the tag of the one language that it translates into.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sharpbeam.convert.facts import Facts
from sharpbeam.convert.formats.spm import read_spm
from sharpbeam.convert.readers.hugging_face.tokens import (
    SourceTag,
    added_tokens,
    by_id,
    id_of,
    multilingual,
    read_ids,
    tokenizer_facts,
)
from sharpbeam.convert.readers.tokens import TokenLists, Tokens

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
_MASK = "<mask>"


def read_tokens(folder: Path, kind: str, source_size: int, target_size: int, special: Mapping[str, int]) -> Tokens:
    """The tokens of the model in `folder`, for embeddings of these sizes; `special` lacks unk. Raises ModelError."""
    tokenizer = tokenizer_facts(folder)
    if kind == "marian":
        return _marian(folder, tokenizer, source_size, target_size, special)
    if kind == "mbart":
        return _mbart(folder, tokenizer, source_size, special)
    # One class of weights has several tokenizers, which differ in the ids of tokens and in the places of tags.
    if tokenizer.text("tokenizer_class"):
        classes = {**dict.fromkeys(_M2M_CLASSES, _m2m), **dict.fromkeys(_NLLB_CLASSES, _nllb)}
        read = tokenizer.choice("tokenizer_class", classes)
    else:
        read = _m2m if (folder / "vocab.json").is_file() else _nllb
    return read(folder, tokenizer, source_size, special)


def _marian(folder: Path, tokenizer: Facts, source_size: int, target_size: int, special: Mapping[str, int]) -> Tokens:
    shared = not tokenizer.flag("separate_vocabs")
    path = folder / ("vocab.json" if shared else "target_vocab.json")
    source, target = read_ids(folder / "vocab.json"), read_ids(path)
    lists = TokenLists(
        folder,
        by_id(source, source_size),
        by_id(target, target_size),
        read_spm(folder / "source.spm")[0],
        read_spm(folder / "target.spm")[0],
    )
    unk = id_of(path, target, tokenizer.text("unk_token") or "<unk>")
    return lists.tokens({"unk_id": unk, **special}, lists.tags(shared))


def _m2m(folder: Path, tokenizer: Facts, size: int, special: Mapping[str, int]) -> Tokens:
    ids = read_ids(folder / "vocab.json")
    codes = tokenizer.choice("language_codes", _LANGUAGES) if tokenizer.get("language_codes") else _LANGUAGES["m2m100"]
    first = len(ids)
    languages = {code: first + i for i, code in enumerate(codes.split())}
    pieces = ids | {f"__{code}__": token for code, token in languages.items()}
    special = {"unk_id": id_of(folder / "vocab.json", ids, tokenizer.text("unk_token") or "<unk>"), **special}
    tag: SourceTag = "target" if tokenizer.text("tokenizer_class") == "SMALL100Tokenizer" else "source"
    return multilingual(folder, pieces, size, special, languages, tag)


def _nllb(folder: Path, tokenizer: Facts, size: int, special: Mapping[str, int]) -> Tokens:
    pieces, first = _fairseq_pieces(folder)
    languages = {code: token for code, token in added_tokens(folder, first).items() if token >= first and code != _MASK}
    tag: SourceTag = "source-behind" if tokenizer.flag("legacy_behaviour") else "source"  # vocabulary: stored
    return multilingual(folder, pieces | languages, size, {"unk_id": 3, **special}, languages, tag)


def _mbart(folder: Path, tokenizer: Facts, size: int, special: Mapping[str, int]) -> Tokens:
    pieces, first = _fairseq_pieces(folder)
    fifty = size >= first + len(f"{_MBART} {_MBART_50}".split())
    if tokenizer.text("tokenizer_class"):
        fifty = tokenizer.choice("tokenizer_class", {name: "50" in name for name in _MBART_CLASSES})
    codes = f"{_MBART} {_MBART_50}" if fifty else _MBART
    languages = {code: first + i for i, code in enumerate(codes.split())}
    target = next((code for code, token in languages.items() if token == special["bos_id"]), "")
    tag: SourceTag = "source" if fifty else "source-behind"  # vocabulary: stored
    return multilingual(folder, pieces | languages, size, {"unk_id": 3, **special}, languages, tag, target)


def _fairseq_pieces(folder: Path) -> tuple[dict[str, int], int]:
    """The pieces of a SentencePiece model one id higher, after four special ones; and the first id after them."""
    spm = read_spm(folder / "sentencepiece.bpe.model")[1]
    pieces = dict(zip(_BEGIN_NLLB, range(4), strict=True))
    return pieces | {piece: i + 1 for i, piece in enumerate(spm) if i >= 3}, len(spm) + 1
