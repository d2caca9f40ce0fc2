"""Shortlists from pairs, and the shortlist of a model folder."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sharpbeam.errors import InputError, ModelError
from sharpbeam.fit.shortlist import Translations, coverage, fit_pairs, read_pairs, shortlist_of
from sharpbeam.options.fit import ShortlistOptions
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.storage.artifacts import FolderArtifacts
from sharpbeam.text.words import WordVocabulary

SPECIAL = [0, 1, 2, 3]


@pytest.fixture()
def german() -> WordVocabulary:
    return vocabulary("das Haus Buch ein")


@pytest.fixture()
def english() -> WordVocabulary:
    return vocabulary("the house book a")


def vocabulary(words: str) -> WordVocabulary:
    return WordVocabulary(["<unk>", "<s>", "</s>", "<pad>", *words.split()])


def lists(shortlist: Shortlist) -> list[list[int]]:
    return [shortlist.token[a:b].tolist() for a, b in zip(shortlist.start[:-1], shortlist.start[1:], strict=True)]


def test_lists_keep_the_likeliest_equal_ones_by_id():
    result = Translations(
        np.array([1, 1, 1, 1, 3], np.int32), np.array([2, 5, 7, 9, 4], np.int32), np.array([0.1, 0.3, 0.3, 0.3, 1.0])
    )
    assert lists(shortlist_of(result, 4, 2, {8, 0})) == [[], [5, 7], [], [4]]
    assert shortlist_of(result, 4, 9, {8, 0}).always.tolist() == [0, 8]
    assert lists(shortlist_of(result, 4, 2, {5, 4})) == [[], [7, 9], [], []]  # those in every set take no place


def test_from_pairs(german, english):
    pairs = [("das Haus", "the house"), ("das Buch", "the book"), ("ein Buch", "a book"), ("das Haus", "the house")]
    pairs = [*pairs, ("", "the"), ("das", "")] * 60
    fit, held_out = read_pairs(pairs, Path("all"), german, english, 150, lambda _: None)
    assert (len(fit), len(held_out)) == (149, 1)
    options = ShortlistOptions(translations=1, frequent=1, rounds=20)
    result = fit_pairs(fit, german, english, options, lambda _: None)
    assert lists(result)[5:7] == [[5], [6]]  # Haus: house, Buch: book
    assert result.always.tolist() == [*SPECIAL, 4]  # the
    covered = coverage(result, [(np.array([5], np.int32), np.array([5, 7], np.int32))])
    assert covered == {"pairs": 1, "words": 0.5, "average_set": 6}
    assert coverage(result, []) is None
    with pytest.raises(InputError, match=r"none\.tsv has no sentence pair"):
        read_pairs([("", "the")], Path("none.tsv"), german, english, 10, lambda _: None)


WEIGHT, BIAS = np.ones((5, 2), np.float32), np.zeros(5, np.float32)


def artifacts(folder: Path, bias: float = 0.0, source: bytes = b"de", sources: int = 3, vocab: int = 5):
    """Those of a model of 3 source and 5 target tokens, or of another one."""
    return FolderArtifacts(folder, WEIGHT[:vocab], BIAS[:vocab] + np.float32(bias), (source, b"en"), sources)


@pytest.fixture()
def shortlist() -> Shortlist:
    start = np.array([0, 2, 2, 3], np.int32)
    return Shortlist(np.array([0, 4], np.int32), start, np.array([3, 1, 2], np.int32))


def test_save_and_load(tmp_path, shortlist):
    artifacts(tmp_path).save("shortlist", shortlist, {"from": "pairs"})
    result = artifacts(tmp_path).read("shortlist")
    for name in ("always", "start", "token"):
        assert getattr(result, name).tolist() == getattr(shortlist, name).tolist()
    assert artifacts(tmp_path).facts("shortlist")["from"] == "pairs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["shortlist.json", "shortlist.safetensors"]


def test_what_does_not_belong_together_is_refused(tmp_path, shortlist):
    with pytest.raises(ModelError, match=r"has no shortlist\. Make it with: sharpbeam fit shortlist"):
        artifacts(tmp_path).read("shortlist")
    artifacts(tmp_path).save("shortlist", shortlist, {})
    for other, part in (({"bias": 1.0}, "output weights"), ({"source": b"fr"}, "source vocabulary")):
        with pytest.raises(ModelError, match=f"was fitted for other {part} than this model has"):
            artifacts(tmp_path, **other).read("shortlist")
    with pytest.raises(ModelError, match=r"start is int32 of shape \[4\]; it must be int32 of shape \[5\]"):
        artifacts(tmp_path, sources=4).read("shortlist")
    record, tensors = tmp_path / "shortlist.json", tmp_path / "shortlist.safetensors"
    sound = record.read_text()
    for damage, message in (
        ("{", "is not JSON"),
        ("[]", "not a JSON object"),
        (sound[:-20], "is not JSON"),
    ):
        record.write_text(damage)
        with pytest.raises(ModelError, match=message):
            artifacts(tmp_path).read("shortlist")
    record.write_text(json.dumps(json.loads(sound) | {"format_version": 2}))
    with pytest.raises(ModelError, match="this Sharpbeam reads 1"):
        artifacts(tmp_path).read("shortlist")
    record.write_text(sound)
    tensors.write_bytes(tensors.read_bytes()[:-1])
    with pytest.raises(ModelError, match="its SHA-256 differs"):
        artifacts(tmp_path).read("shortlist")
    tensors.unlink()
    with pytest.raises(ModelError, match=r"cannot be read \(No such file"):
        artifacts(tmp_path).read("shortlist")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start": [1, 2, 2, 3]}, "start must rise"),
        ({"start": [0, 2, 1, 3]}, "start must rise"),
        ({"start": [0, 2, 2, 4]}, "start must rise"),
        ({"always": []}, "always must hold"),
        ({"always": [4, 4]}, "always must hold"),
        ({"always": [-1, 4]}, "always holds .-1.; tokens of the model are 0 to 4"),
        ({"token": [3, 1, 5]}, "token holds .5.; tokens"),
    ],
)
def test_wrong_numbers_are_refused(tmp_path, shortlist, change, message):
    arrays = {name: getattr(shortlist, name) for name in ("always", "start", "token")}
    broken = Shortlist(**arrays | {name: np.array(ids, np.int32) for name, ids in change.items()})
    artifacts(tmp_path).save("shortlist", broken, {})
    with pytest.raises(ModelError, match=message):
        artifacts(tmp_path).read("shortlist")
