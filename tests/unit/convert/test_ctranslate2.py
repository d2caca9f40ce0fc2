"""Folders of CTranslate2, which its own converter made: the same tokens and scores as its own translator."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.foreign import ENGLISH, demo_sentences, pieces_of, train_pieces
from support.t5_models import FAMILIES, write_t5

from sharpbeam import Translator
from sharpbeam.convert.conversion import read_model
from sharpbeam.convert.formats.ctranslate2 import read_model_file
from sharpbeam.convert.formats.weights import values
from sharpbeam.convert.readers import ctranslate2 as reader
from sharpbeam.errors import ModelError
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.model_folder import save_model
from sharpbeam.storage.tensors import Int8Matrix

ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
TEXTS = demo_sentences()[:8]
CLOSE = 1e-4


def converted(hugging_face: Path, to: Path, quantization: str | None) -> Path:
    ctranslate2.converters.TransformersConverter(str(hugging_face)).convert(str(to), quantization=quantization)
    for path in hugging_face.glob("*.spm"):
        shutil.copy(path, to)
    for path in hugging_face.glob("*.bpe.model"):
        shutil.copy(path, to)
    return to


def ours_of(folder: Path, to: Path) -> Translator:
    read_model(str(folder)).save(to, "toy")
    from support.torch_model import torch_translator

    return torch_translator(to)


@pytest.fixture(scope="module")
def float32(transformers, marian, tmp_path_factory) -> Path:
    return converted(marian, tmp_path_factory.mktemp("ct2") / "float32", "float32")


@pytest.mark.parametrize(("beam", "penalty"), [(1, 1.0), (4, 0.0), (5, 1.0)])
def test_tokens_and_scores_are_those_of_ctranslate2(float32, tmp_path, beam, penalty):
    """A beam of its stops early by default and by no rule of ours, so both search to the end."""
    ours = ours_of(float32, tmp_path / "ours")
    theirs = ctranslate2.Translator(str(float32), compute_type="float32")
    pieces = [[*map(ours.loaded.source.piece, ours.loaded.source.encode(text)), "</s>"] for text in TEXTS]
    options = {"beam_size": beam, "length_penalty": penalty}
    patience = 20 if beam > 1 else 1
    result = theirs.translate_batch(
        pieces, **options, max_decoding_length=20, min_decoding_length=0, return_scores=True, patience=patience
    )
    answers = ours.translate(TEXTS, raw=True, **options, max_length=20, early_stopping="exhaustive")
    for text, answer, expected in zip(TEXTS, answers, result, strict=True):
        assert list(answer.hypotheses[0].tokens) == expected.hypotheses[0], text
        score = expected.scores[0]  # of greedy search too it is divided by the length
        if beam > 1:
            assert abs(answer.score - score) < CLOSE


@pytest.mark.parametrize("family", FAMILIES)
def test_t5_and_its_relatives_say_the_same_as_in_ctranslate2_and_in_hugging_face(transformers, tmp_path, family):
    """Relative positions, RMS norms, unscaled attention, heads that are no part of the width, scaled outputs."""
    write_t5(tmp_path / "theirs", [*demo_sentences(), *ENGLISH.split(". ")], family, seed=3)
    whole = tmp_path / "theirs" / ("whole" if family == "MADLAD-400" else "")  # whose names transformers 5 misreads
    tokenizer = transformers.T5Tokenizer.from_pretrained(tmp_path / "theirs")
    tokenizer.save_pretrained(whole)
    folder = converted(whole, tmp_path / "ct2", "float32")
    shutil.copy(tmp_path / "theirs/spiece.model", folder)
    model, other = read_model(str(folder)), read_model(str(tmp_path / "theirs"))
    assert dataclasses.replace(model.config, pad_id=other.config.pad_id) == other.config
    # Its converter takes T5 v1.1 of transformers 5 for v1.0, whose outputs are scaled; its folder is what counts.
    same = other.tensors.keys() - ({"decoder_norm.weight"} if not other.config.tied_output else set())
    assert all(np.allclose(model.tensors[name], other.tensors[name], rtol=1e-6) for name in same)
    ours = ours_of(folder, tmp_path / "ours")
    texts = [*TEXTS[:5], " ".join(TEXTS), "</s> <extra_id_0> Tom"]
    tag = {"target_language": "de"} if family == "MADLAD-400" else {}
    assert [model.source.encode(text) for text in texts] == [other.source.encode(text) for text in texts]
    pieces = [[*["<2de>"] * len(tag), *map(model.source.piece, model.source.encode(text)), "</s>"] for text in texts]
    theirs = ctranslate2.Translator(str(folder), compute_type="float32")
    length = {"max_decoding_length": 20, "min_decoding_length": 0}
    result = theirs.translate_batch(pieces, beam_size=4, length_penalty=1.0, patience=20, **length)
    answers = ours.translate(texts, raw=True, beam_size=4, max_length=20, early_stopping="exhaustive", **tag)
    assert [list(answer.tokens) for answer in answers] == [one.hypotheses[0] for one in result]
    assert len({answer.tokens for answer in answers}) > 3


def test_gelu_by_tanh_is_that_of_ctranslate2(transformers, marian, tmp_path):
    model = transformers.MarianMTModel.from_pretrained(marian, activation_function="gelu_new")
    model.save_pretrained(shutil.copytree(marian, tmp_path / "tanh"))
    folder = converted(tmp_path / "tanh", tmp_path / "ct2", "float32")
    ours = ours_of(folder, tmp_path / "ours")
    assert ours.loaded.config.activation == "gelu_tanh"
    pieces = [[*map(ours.loaded.source.piece, ours.loaded.source.encode(text)), "</s>"] for text in TEXTS]
    theirs = ctranslate2.Translator(str(folder), compute_type="float32")
    result = theirs.translate_batch(pieces, beam_size=1, max_decoding_length=20, min_decoding_length=0)
    answers = ours.translate(TEXTS, raw=True, beam_size=1, max_length=20)
    assert [list(answer.tokens) for answer in answers] == [one.hypotheses[0] for one in result]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"decoder__alibi": np.int8(1)}, "it has ALiBi positions .decoder/alibi., which Sharpbeam lacks"),
        ({"decoder__activation": np.int8(5)}, r"activation is \[2\.0, 5\.0\]; it must be the same on both"),
        ({"decoder__layer_1__attention__queries_scale": np.float32(1)}, r"queries_scale is \[1.0\] in 1 of 6 "),
    ],
)
def test_a_feature_that_we_lack_is_named(float32, monkeypatch, change, message):
    change_variables(monkeypatch, float32, **change)
    with pytest.raises(ModelError, match=message):
        read_model(str(float32))


@pytest.mark.parametrize("quantization", ["float16", "bfloat16", "int16", "int8"])
def test_other_types_hold_the_weights_as_they_are_rounded(float32, marian, tmp_path, quantization):
    exact = read_model(str(float32))
    rounded = read_model(str(converted(marian, tmp_path / quantization, quantization)))
    assert exact.config == rounded.config
    steps = {"float16": 2**-10, "bfloat16": 2**-7, "int16": 2**-10, "int8": 2**-7}
    for name, tensor in exact.tensors.items():
        largest = np.abs(tensor).max(axis=-1, keepdims=True) if quantization == "int8" else np.abs(tensor).max()
        result = rounded.tensors[name]
        assert isinstance(result, Int8Matrix) == (quantization == "int8" and tensor.ndim == 2)
        assert (np.abs(tensor - values(result)) <= 0.51 * steps[quantization] * largest + 1e-7).all(), name
        if tensor.ndim == 2:
            assert (tensor != values(result)).any()


def test_languages_are_found(nllb, tmp_path):
    folder = converted(nllb, tmp_path / "nllb", "float32")
    ours = ours_of(folder, tmp_path / "ours")
    assert set(ours.loaded.language_tags.tokens) == {"deu_Latn", "eng_Latn", "fra_Latn"}
    theirs = ctranslate2.Translator(str(folder), compute_type="float32")
    pieces = [["deu_Latn", *map(ours.loaded.source.piece, ours.loaded.source.encode(text)), "</s>"] for text in TEXTS]
    options = {"beam_size": 1, "max_decoding_length": 12, "min_decoding_length": 0}
    result = theirs.translate_batch(pieces, target_prefix=[["fra_Latn"]] * len(TEXTS), **options)
    settings = {"source_language": "deu_Latn", "target_language": "fra_Latn", "beam_size": 1, "max_length": 12}
    for answer, expected in zip(ours.translate(TEXTS, raw=True, **settings), result, strict=True):
        assert list(answer.hypotheses[0].tokens) == expected.hypotheses[0]


@pytest.mark.parametrize("gated", [False, True])
def test_a_folder_of_quickmt(tmp_path, gated):
    """8 + 2 layers in pre-norm, a SentencePiece model for each side, sources without eos."""
    from bench.engines.ctranslate2_model import write

    spm = {
        "source": train_pieces(demo_sentences(), 190, pad_id=3),
        "target": train_pieces(ENGLISH.split(". "), 90, pad_id=3, hard_vocab_limit=False),
    }
    sizes = [len(pieces_of(model)) for model in spm.values()]
    config = TransformerConfig(
        *sizes, hidden_dim=24, encoder_layers=8, decoder_layers=2, encoder_heads=3, decoder_heads=3, encoder_ffn_dim=40,
        decoder_ffn_dim=40, activation="swish" if gated else "gelu", gated_ffn=gated, norm_epsilon=1e-6,
        tied_output=True, source_eos=False,
    )  # fmt: skip
    draw = np.random.default_rng(3)
    tensors = {name: draw.normal(0, 0.5, shape).astype(np.float32) for name, shape in config.tensor_shapes().items()}
    for name in filter(lambda name: name.endswith("norm.weight"), tensors):
        tensors[name] += np.sign(tensors[name])  # of any sign, or the last token is said again and again
    save_model(tmp_path / "made", config, tensors, {f"{side}.spm": data for side, data in spm.items()}, "# toy\n")
    folder = write(tmp_path / "made", tmp_path / "quickmt", "float32")
    for name, data in zip(("src.spm.model", "tgt.spm.model"), spm.values(), strict=True):
        (folder / name).write_bytes(data)
    (folder / "eole-config.yaml").write_text("src_vocab_size: 20000\n")
    result = read_model(str(folder))
    assert dataclasses.replace(result.config, unk_id=0) == config and result.notes == ("Sources do not end in eos.",)
    ours, theirs = ours_of(folder, tmp_path / "ours"), ctranslate2.Translator(str(folder), compute_type="float32")
    pieces = [[*map(result.source.piece, result.source.encode(text))] for text in TEXTS]
    expected = theirs.translate_batch(
        pieces, beam_size=4, length_penalty=1.0, max_decoding_length=15, min_decoding_length=0, patience=20
    )
    answers = ours.translate(
        TEXTS, raw=True, beam_size=4, length_penalty=1.0, max_length=15, early_stopping="exhaustive"
    )
    assert [list(answer.tokens) for answer in answers] == [one.hypotheses[0] for one in expected]
    assert len({answer.tokens for answer in answers}) > 4


def test_without_sentencepiece_text_is_pieces(float32, tmp_path):
    folder = shutil.copytree(float32, tmp_path / "bare")
    for path in folder.glob("*.spm"):
        path.unlink()
    model = read_model(str(folder))
    assert "--source-spm" in model.notes[0]
    assert model.source.encode("▁ein e 😀") == [*(model.source.encode("▁ein")), *(model.source.encode("e")), 1]
    again = read_model(str(folder), float32 / "source.spm", float32 / "target.spm")
    assert again.source.serialized == read_model(str(float32)).source.serialized


def test_what_we_lack_is_refused_by_name(float32, tmp_path):
    for fact, value in (("add_source_bos", True), ("quantization_type", 2), ("eos_token", "no such word")):
        folder = shutil.copytree(float32, tmp_path / fact)
        facts = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(facts | {fact: value}))
        with pytest.raises(ModelError, match=fact):
            read_model(str(folder))
    folder = shutil.copytree(float32, tmp_path / "variable")
    raw = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(raw.replace(b"decoder/alibi\0", b"decoder/alibo\0"))
    with pytest.raises(ModelError, match="does not account for, such as 'decoder/alibo'"):
        read_model(str(folder))


def test_mbart_is_refused_as_its_folder_does_not_say_how_text_is_split(float32, tmp_path):
    folder = shutil.copytree(float32, tmp_path / "mbart")
    path = folder / "shared_vocabulary.json"
    path.write_text(json.dumps([*json.loads(path.read_text())[:-1], "en_XX"]))
    with pytest.raises(ModelError, match="mBART in CTranslate2's format does not say"):
        read_model(str(folder))


def test_a_model_of_an_older_version_is_refused(float32, tmp_path):
    folder = shutil.copytree(float32, tmp_path / "old")
    raw = (folder / "model.bin").read_bytes()
    (folder / "model.bin").write_bytes(b"\5\0\0\0" + raw[4:])
    with pytest.raises(ModelError, match="its version is 5, and 6 is read; convert its original again"):
        read_model(str(folder))


def test_a_start_that_is_left_to_the_user_is_refused(float32, tmp_path):
    folder = shutil.copytree(float32, tmp_path / "null")
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | {"decoder_start_token": None}))
    with pytest.raises(ModelError, match=r"config\.json: decoder_start_token is None; .* lets each request name"):
        read_model(str(folder))


@pytest.mark.parametrize("shared", [True, False])
def test_a_tag_of_the_target_is_read_as_from_hugging_face(marian, float32, tmp_path, shared):
    """OPUS-MT with several targets; with a vocabulary for each side a text names its tag itself."""
    folder = float32 if shared else apart(float32, tmp_path / "apart", {}, {})
    result, expected = read_model(str(folder), float32 / "source.spm", float32 / "target.spm"), read_model(str(marian))
    text = ">>eng<< Guten Morgen"
    assert result.source.piece(result.source.encode(text)[0]) == ">>eng<<"
    assert result.source.encode(text) == expected.source.encode(text)
    assert expected.config.languages.keys() == {"eng"}
    languages = expected.config.languages if shared else {}
    assert (result.config.languages, result.config.source_tag) == (languages, "target" if shared else "none")


def apart(float32: Path, folder: Path, source: dict[int, str], target: dict[int, str]) -> Path:
    """`float32` with a vocabulary for each side, in which some words are other ones."""
    shutil.copytree(float32, folder, ignore=shutil.ignore_patterns("shared_vocabulary.json", "*.spm"))
    words = dict(enumerate(json.loads((float32 / "shared_vocabulary.json").read_text())))
    for side, other in (("source", source), ("target", target)):
        (folder / f"{side}_vocabulary.json").write_text(json.dumps(list((words | other).values())))
    return folder


def change_variables(monkeypatch, float32: Path, **changes) -> None:
    """Have the reader find other variables; a name's / is __ here."""
    kind, variables = read_model_file(float32 / "model.bin")
    result = variables | {name.replace("__", "/"): np.asarray(value) for name, value in changes.items()}
    monkeypatch.setattr(reader, "read_model_file", lambda _: (kind, result))


def test_no_source_word_is_lost_where_the_source_has_more(float32, tmp_path, monkeypatch):
    table = read_model_file(float32 / "model.bin")[1]["decoder/embeddings/weight"]
    more = np.arange(3 * table.shape[1], dtype=np.float32).reshape(3, -1)
    change_variables(monkeypatch, float32, encoder__embeddings_0__weight=np.concatenate([table, more]))
    words = {len(table) + i: word for i, word in enumerate(("one", "two", "three"))}
    model = read_model(str(apart(float32, tmp_path / "apart", words, {})))
    ids = model.source.encode("one two three")
    assert [model.source.piece(i) for i in ids] == ["one", "two", "three"]
    assert np.array_equal(model.tensors["source_embedding"][ids], more)


def test_a_source_may_have_its_unknown_token_last_and_leave_it_out(float32, tmp_path, monkeypatch):
    """As models of OpenNMT-tf do; CTranslate2 adds it, and reads lines that end as Windows ends them."""
    words = json.loads((float32 / "shared_vocabulary.json").read_text())
    table = read_model_file(float32 / "model.bin")[1]["decoder/embeddings/weight"]
    pieces = float32 / "source.spm", float32 / "target.spm"
    expected = read_model(str(apart(float32, tmp_path / "plain", {}, {})), *pieces)
    unknown, order = words.index("<unk>"), [*range(len(words))]
    order[unknown], order[-1] = order[-1], unknown
    change_variables(monkeypatch, float32, encoder__embeddings_0__weight=table[order])
    folder = apart(float32, tmp_path / "apart", {}, {})
    (folder / "source_vocabulary.json").unlink()
    listed = "".join(f"{words[token]}\r\n" for token in order[:-1])
    (folder / "source_vocabulary.txt").write_bytes(listed.encode())
    result = read_model(str(folder), *pieces)
    assert result.config == dataclasses.replace(expected.config, shared_embedding=False)
    assert np.array_equal(values(result.tensors["source_embedding"])[: len(table)], table)
    for text in [*TEXTS, "😀"]:
        assert result.source.encode(text) == expected.source.encode(text)


@pytest.mark.parametrize("word", ["<s>", "<pad>"])
def test_a_special_word_that_is_a_common_one_in_the_source_is_refused(float32, tmp_path, monkeypatch, word):
    if word == "<s>":
        change_variables(monkeypatch, float32, decoder__start_from_zero_embedding=np.int8(0))
    folder = apart(float32, tmp_path / "apart", {20: "common"}, {20: word})
    facts = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(facts | {"decoder_start_token": "<s>", "add_source_eos": True}))
    with pytest.raises(ModelError, match=f"'common' in the source vocabulary and '{word}' in the target's"):
        read_model(str(folder))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("encoder__layer_0__ffn__linear_0__weight", np.float32(1.0)),
        ("decoder__layer_1__ffn__linear_0__weight", np.zeros((2, 3, 4), np.float32)),
        ("encoder__num_heads", np.float32("nan")),
        ("decoder__activation", np.float32("inf")),
        ("decoder__scale_embeddings", np.float32("nan")),
    ],
)
def test_variables_that_are_no_numbers_or_matrices_are_refused(float32, monkeypatch, name, value):
    change_variables(monkeypatch, float32, **{name: value})
    with pytest.raises(ModelError, match=name.replace("__", "/") + r".*(two axes|finite|it must have \(40, 32\))"):
        read_model(str(float32))


def test_a_source_ends_in_eos_where_the_config_says_so(float32, tmp_path, monkeypatch):
    """As a model of OpenNMT-py looks: it starts from <s>, and nothing says that its sources end in </s>."""
    change_variables(monkeypatch, float32, decoder__start_from_zero_embedding=np.int8(0))
    folder = apart(float32, tmp_path / "apart", {20: "<s>"}, {20: "<s>"})
    facts = json.loads((folder / "config.json").read_text()) | {"decoder_start_token": "<s>", "add_source_eos": False}
    (folder / "config.json").write_text(json.dumps(facts))
    assert not read_model(str(folder)).config.source_eos
    (folder / "config.json").write_text(json.dumps(facts | {"add_source_eos": True}))
    assert read_model(str(folder)).config.source_eos


def test_a_word_that_is_no_text_is_refused(float32, tmp_path):
    folder = apart(float32, tmp_path / "apart", {9: "\ud800"}, {})
    with pytest.raises(ModelError, match=r"source_vocabulary\.json has a word with '\\ud800'"):
        read_model(str(folder))


def test_every_byte_of_the_file_is_accounted_for(float32, tmp_path):
    raw = (float32 / "model.bin").read_bytes()
    path = tmp_path / "model.bin"
    for broken in (raw[:-1], raw + b"\0", raw[: len(raw) // 2], b"", b"\x09\0\0\0" + raw[4:]):
        path.write_bytes(broken)
        with pytest.raises(ModelError, match=r"model\.bin cannot be read"):
            read_model_file(path)
