"""Reading parallel text, and batches."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from sharpbeam.errors import InputError  # noqa: E402
from sharpbeam.options.train import DataOptions  # noqa: E402
from sharpbeam.text.sentencepiece import EOS_ID, PAD_ID, SentencePieceVocabulary, train_sentencepiece  # noqa: E402
from sharpbeam.train.translation import ParallelData, read_pairs  # noqa: E402

PAIRS = [("eins", "one"), ("zwei", "two"), ("drei\u2028vier", "three")]  # U+2028 ends no line


def write(path: Path, data: bytes) -> None:
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tab_separated_and_parallel_files_give_the_same_pairs(tmp_path, suffix, end):
    write(tmp_path / f"both{suffix}", end.join(f"x\t{b}\t{a}" for a, b in PAIRS).encode() + end.encode())
    write(tmp_path / f"de{suffix}", end.join(a for a, _ in PAIRS).encode())
    write(tmp_path / f"en{suffix}", end.join(b for _, b in PAIRS).encode())
    columns = DataOptions(train=("-",), valid=("-",), source_column=2, target_column=1)
    assert read_pairs((f"both{suffix}",), (), columns, tmp_path) == (PAIRS, [])
    assert read_pairs((f"de{suffix}",), (f"en{suffix}",), columns, tmp_path) == (PAIRS, [])


def test_unreadable_files_and_uneven_sides_and_missing_columns_are_named(tmp_path):
    options = DataOptions(train=("-",), valid=("-",))
    (tmp_path / "two").write_text("a\tb\nc\td\n")
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "bad").write_bytes(b"gut\tgood\nschlecht \xff\n")
    (tmp_path / "torn.gz").write_bytes(gzip.compress(b"a\tb\n" * 100)[:-12])
    with pytest.raises(InputError, match=r"cannot read .*none"):
        read_pairs(("none",), (), options, tmp_path)
    with pytest.raises(InputError, match=r"bad, line 2: .* not valid UTF-8"):
        read_pairs(("bad",), (), options, tmp_path)
    with pytest.raises(InputError, match=r"cannot read .*torn.gz"):
        read_pairs(("torn.gz",), (), options, tmp_path)
    with pytest.raises(InputError, match=r"one has 1 lines, but .*two has more"):
        read_pairs(("two",), ("one",), options, tmp_path)
    with pytest.raises(InputError, match=r"one, line 1: columns 0 to 1 are needed"):
        read_pairs(("one",), (), options, tmp_path)


@pytest.fixture
def vocabulary(tmp_path):
    lines = [f"wort {i} {'ab' * (i % 7)}" for i in range(300)]
    (tmp_path / "s.spm").write_bytes(train_sentencepiece(lines, "s.spm", 40, 1.0, 1))
    return SentencePieceVocabulary(tmp_path / "s.spm")


@pytest.fixture
def data(vocabulary):
    pairs = [(f"{i} " + "ab " * (i % 17), f"{i} " + "ba " * (i % 5)) for i in range(400)]
    return ParallelData(pairs, vocabulary, vocabulary, 100)


def identities(data, batches):
    """Place in data.items of every pair in the batches; the pairs of this data are all different."""
    place = {(tuple(s), tuple(t)): i for i, (s, t) in enumerate(data.items)}
    for batch in batches:
        for source, label in zip(batch.source.tolist(), batch.label.tolist(), strict=True):
            bare = [i for i in label if i != PAD_ID]
            assert bare[-1] == EOS_ID
            yield place[tuple(i for i in source if i != PAD_ID), tuple(bare[:-1])]


@pytest.mark.parametrize("budget", [1, 64, 500, 10**6])
def test_an_epoch_holds_every_pair_once_within_the_budget(data, budget):
    batches = list(data.epoch(budget, 1, 0))
    assert sorted(identities(data, batches)) == list(range(len(data.items))) == data.places
    for batch in batches:
        assert len(batch.source) == 1 or max(batch.source.numel(), batch.label.numel()) <= budget


def test_seed_and_epoch_fix_the_order_and_skip_leaves_out_its_beginning(data):
    first, again = (list(identities(data, data.epoch(64, 1, 0))) for _ in range(2))
    assert first == again
    assert first != list(identities(data, data.epoch(64, 1, 1)))
    assert first != list(identities(data, data.epoch(64, 2, 0)))
    batches = list(data.epoch(64, 1, 0))
    rest = list(data.epoch(64, 1, 0, skip=3))
    assert len(rest) == len(batches) - 3
    assert all(torch.equal(a.source, b.source) for a, b in zip(batches[3:], rest, strict=True))


def test_batches_are_padded_and_shifted(data):
    batch = data.batch([0, 16, 399])
    assert batch.source_mask is not None
    assert torch.equal(batch.source_mask, batch.source != PAD_ID)
    real = batch.label[:, 1:] != PAD_ID
    assert torch.equal(batch.target[:, 1:][real], batch.label[:, :-1][real])
    assert data.batch([5]).source_mask is None


def test_long_and_empty_pairs_are_left_out_and_nothing_left_is_an_error(vocabulary):
    pairs = [("ab " * 200, "ab"), ("", "ab"), ("ab", " "), ("ab", "ba")]
    assert ParallelData(pairs, vocabulary, vocabulary, 50).places == [3]
    with pytest.raises(InputError, match="no sentence pair is left"):
        ParallelData(pairs[:3], vocabulary, vocabulary, 50)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["ba ce di"] * 50, "allows at most 12"),
        (["abcdefghijklmnopqrstuvwxyz0123456789"] * 50, "needs at least 41, one for each character"),
        (["", ""], "has no line with a word in it"),
    ],
)
def test_a_size_that_the_text_does_not_allow_is_said_in_our_words(tmp_path, lines, message):
    with pytest.raises(InputError) as caught:
        train_sentencepiece(lines, "s.spm", 20, 1.0, 1)
    assert message in str(caught.value) and "INTERNAL" not in str(caught.value)
    assert not list(tmp_path.iterdir())
