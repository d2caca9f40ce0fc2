"""Vocabularies: the exact round trip of ids and text, files, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sharpbeam.errors import InputError, ModelError
from sharpbeam.text.pieces import PieceVocabulary
from sharpbeam.text.sentencepiece import SentencePieceVocabulary, plain_signs
from sharpbeam.text.vocabulary import read_vocabularies
from sharpbeam.text.words import SPECIAL_WORDS, WordVocabulary

WORDS = WordVocabulary([*SPECIAL_WORDS, "the", "green", "house", "Straße", "naïve", "日本", "."])


@given(st.lists(st.sampled_from([0, *range(4, len(WORDS))])))
def test_word_ids_make_the_round_trip(ids: list[int]) -> None:
    assert WORDS.encode(WORDS.decode(ids)) == ids


@given(st.lists(st.sampled_from(WORDS.words[4:])))
def test_known_words_make_the_round_trip(words: list[str]) -> None:
    assert WORDS.decode(WORDS.encode(" ".join(words))) == " ".join(words)


def test_an_unknown_word_is_unk() -> None:
    assert WORDS.encode("the blue house") == [4, 0, 6]
    assert WORDS.decode([4, 0, 6]) == "the <unk> house"


def test_quotes_and_dashes_without_a_piece_are_read_as_plain_ones() -> None:
    def lacks(sign: str) -> bool:
        return sign in "\u201c\u2019\u2014"

    assert plain_signs(lacks)("\u201cIt\u2019s\u201d \u2014 \u2013\0") == "\"It's\u201d - \u2013 "
    assert plain_signs(lambda sign: False)("\u201cIt\u2019s\u201d") == "\u201cIt\u2019s\u201d"
    assert plain_signs(lambda sign: False)("con\u00adtact the word\u2060joiner") == "contact the wordjoiner"


def test_text_cannot_name_a_special_word() -> None:
    assert WORDS.encode("<s> the </s> <pad> <unk>") == [0, 4, 0, 0, 0]
    assert WORDS.decode([1, 4, 2, 3]) == "the"


def test_build_takes_the_most_frequent_words_and_breaks_ties_by_spelling() -> None:
    built = WordVocabulary.build(["b b b a c", "c a <s> d"], size=7)
    assert built.words == (*SPECIAL_WORDS, "b", "a", "c")
    assert len(WordVocabulary.build(["b a"], size=100)) == 6
    assert WordVocabulary.build(["b b c a", "c"], size=100, least=2).words[4:] == ("b", "c")


def test_save_and_load(tmp_path: Path) -> None:
    (tmp_path / "source.vocab.json").write_bytes(WORDS.serialized)
    assert WordVocabulary.load(tmp_path / "source.vocab.json").words == WORDS.words
    assert [path.name for path in tmp_path.iterdir()] == ["source.vocab.json"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a", "b"], "must begin with <unk> <s> </s> <pad>"),
        ([*SPECIAL_WORDS, "a", "b", "a"], "'a' stands twice, as 4 and 6"),
        ([*SPECIAL_WORDS, "two words"], "word 4 is 'two words'"),
        ([*SPECIAL_WORDS, ""], "word 4 is ''"),
        ([*SPECIAL_WORDS, 7], "word 4 is 7"),
    ],
)
def test_a_list_that_is_no_vocabulary_is_refused(tmp_path: Path, words: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        WordVocabulary(words)
    path = tmp_path / "source.vocab.json"
    path.write_text(json.dumps({"words": words}))
    with pytest.raises(ModelError, match=r"source\.vocab\.json is not a word vocabulary"):
        WordVocabulary.load(path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"words": 3}', "{", "\udcff"])
def test_a_file_that_is_no_vocabulary_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "source.vocab.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ModelError, match=r"source\.vocab\.json is not (a word vocabulary|JSON|a JSON object)"):
        WordVocabulary.load(path)


def test_piece_ids_make_the_round_trip(tiny_model: Path, sentences: list[str]) -> None:
    vocabulary = SentencePieceVocabulary(tiny_model / "source.spm")
    for sentence in sentences:
        ids = vocabulary.encode(sentence)
        assert not {1, 2, 3} & set(ids)
        assert vocabulary.decode(ids) == sentence
        assert vocabulary.encode(vocabulary.decode(ids)) == ids


def test_the_pieces_of_many_ids_are_those_of_each(tiny_model: Path, sentences: list[str]) -> None:
    source, _ = read_vocabularies(tiny_model)
    listed = PieceVocabulary([*map(source.piece, range(len(source)))], source.special_ids, [], source.serialized)
    for vocabulary in (source, listed, WORDS):
        ids = [vocabulary.special_ids["eos_id"], *vocabulary.encode(sentences[0]), len(vocabulary) - 1]
        for _ in range(2):  # the second time from what was read
            assert vocabulary.pieces(ids) == tuple(map(vocabulary.piece, ids))
    assert listed.decode(ids := listed.encode(sentences[0])) == source.decode(ids)
    with pytest.raises(IndexError):
        listed.pieces([0, len(listed)])


def test_pieces_never_seen_are_unk(tiny_model: Path) -> None:
    assert 0 in SentencePieceVocabulary(tiny_model / "source.spm").encode("猫")


def test_the_target_falls_back_to_the_source_vocabulary(tiny_model: Path, tmp_path: Path) -> None:
    source, target = read_vocabularies(tiny_model)
    assert source is target
    (tmp_path / "source.vocab.json").write_bytes(WORDS.serialized)
    (tmp_path / "target.spm").write_bytes((tiny_model / "source.spm").read_bytes())
    source, target = read_vocabularies(tmp_path)
    assert (len(source), len(target)) == (len(WORDS), 200)


def test_a_folder_without_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"none of source\.spm, source\.pieces\.json and source\.vocab\.json"):
        read_vocabularies(tmp_path)
    (tmp_path / "source.spm").write_bytes(b"no model")
    with pytest.raises(ModelError, match="is not a SentencePiece model"):
        read_vocabularies(tmp_path)
