"""Lines in = lines out: what ends a line, what does not, and what is refused."""

from __future__ import annotations

import gzip
import io
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from sharpbeam.errors import InputError, OptionError
from sharpbeam.text import lines as lines_module
from sharpbeam.text.lines import (
    TextInput,
    check_encoding,
    check_readable,
    column_pairs,
    file_pairs,
    read_lines,
)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\r\r\n", ["a\r"]),
        (b"\n\n a \n", ["", "", " a "]),
        ("a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg\n".encode(), ["a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"]),
        (b"a\0b\n", ["a\0b"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
    ],
)
def test_only_a_line_feed_ends_a_line(tmp_path: Path, data: bytes, lines: list[str]) -> None:
    assert list(read_lines(write(tmp_path / "text", data))) == lines
    assert list(read_lines(write(tmp_path / "text.gz", gzip.compress(data)))) == lines


def test_standard_input_is_read_when_no_file_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"one\ntwo")))
    assert list(read_lines(None)) == ["one", "two"]


def test_standard_input_tells_whether_the_next_line_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = os.pipe()
    with os.fdopen(ours) as pipe, os.fdopen(theirs, "wb", buffering=0) as writer:
        monkeypatch.setattr("sys.stdin", pipe)
        stdin = TextInput([])
        lines = iter(stdin)
        assert stdin.ready()  # nothing was asked for yet
        writer.write(b"one\ntwo\nthr")
        assert next(lines) == "one"
        assert stdin.ready()
        assert next(lines) == "two"
        assert not stdin.ready()
        writer.write(b"ee")
        writer.close()
        assert stdin.ready()
        assert list(lines) == ["three"]
        assert stdin.ready()


def test_a_line_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines_module, "MOST_BYTES", 1 << 20)
    data = b"ba\n" + b"x" * (1 << 20) + b"\n"
    for path in (write(tmp_path / "bomb", data), write(tmp_path / "bomb.gz", gzip.compress(data))):
        lines = read_lines(path)
        assert next(lines) == "ba"
        with pytest.raises(InputError, match=r"cannot read .*bomb.* after line 1: the next line has more than 1 MiB"):
            next(lines)
    with (tmp_path / "bomb").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        with pytest.raises(InputError, match="the next line has more than 1 MiB"):
            list(TextInput([]))


def test_an_empty_file_is_no_gzip(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*none\.gz after line 0: the file is empty"):
        list(read_lines(write(tmp_path / "none.gz", b"")))


def test_invalid_utf8_names_file_line_and_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "text", b"good\nba\xff\xfed\n")
    with pytest.raises(InputError, match=r"text, line 2: byte 3 \(0xff\) is not valid UTF-8"):
        list(read_lines(path))
    assert list(read_lines(path, "replace")) == ["good", "ba\ufffd\ufffdd"]


@pytest.mark.parametrize("name", ["latin-1", "cp1252", "shift_jis", "gbk", "koi8-r"])
def test_other_encodings(tmp_path: Path, name: str) -> None:
    texts = {"shift_jis": "お早う\n表示\n", "gbk": "早上好\n", "koi8-r": "Доброе утро\n"}
    text = texts.get(name, "Schöne Grüße\n\nä\n")
    path = write(tmp_path / "text", text.encode(name))
    assert list(read_lines(path, encoding=check_encoding(name))) == text.splitlines()
    pairs = text.replace("\n", "\tx\n").encode(name)
    assert [one for one, _ in column_pairs(write(path, pairs), 0, 1, encoding=name)] == text.splitlines()


@pytest.mark.parametrize("name", ["utf-16", "punycode", "idna", "base64", "unicode_escape", "klingon", "a\0b", ""])
def test_an_encoding_that_is_not_read_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match=r"encoding is .*; it must be an encoding of text, such as utf-8, latin-1"):
        check_encoding(name)


def test_lines_before_the_invalid_one_are_given(tmp_path: Path) -> None:
    lines = read_lines(write(tmp_path / "text", b"good\n\xff\n"))
    assert next(lines) == "good"


def test_broken_gzip_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(b"line\n" * 10000)
    with pytest.raises(InputError, match=r"cannot read .*cut\.gz after line"):
        list(read_lines(write(tmp_path / "cut.gz", whole[: len(whole) // 2])))
    with pytest.raises(InputError, match=r"cannot read .*plain\.gz after line 0: Not a gzipped file"):
        list(read_lines(write(tmp_path / "plain.gz", b"no gzip")))


def test_missing_files_are_named_before_reading(tmp_path: Path) -> None:
    there = write(tmp_path / "there", b"")
    with pytest.raises(InputError, match=r"cannot read .*gone: No such file"):
        check_readable([there, tmp_path / "gone"])
    with pytest.raises(InputError, match="Is a directory"):
        check_readable([tmp_path])


def test_file_pairs_must_have_one_length(tmp_path: Path) -> None:
    two, three = write(tmp_path / "two", b"a\nb\n"), write(tmp_path / "three", b"x\ny\nz\n")
    with pytest.raises(InputError, match=r"two has 2 lines, but .*three has more"):
        list(file_pairs(two, three))
    with pytest.raises(InputError, match=r"two has 2 lines, but .*three has more"):
        list(file_pairs(three, two))
    assert list(file_pairs(two, two)) == [("a", "a"), ("b", "b")]


def test_columns_are_counted_from_zero(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.tsv", b"a\tb\tc\nd\te\n")
    assert list(column_pairs(path, 1, 0)) == [("b", "a"), ("e", "d")]
    with pytest.raises(InputError, match="line 2: columns 0 to 2 are needed"):
        list(column_pairs(path, 0, 2))
