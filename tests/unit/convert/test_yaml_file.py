"""Words of Marian's .yml vocabularies: what YAML's quotes and escapes mean, and what they cannot mean."""

from __future__ import annotations

import pytest

from sharpbeam.convert.formats.yaml import read_words
from sharpbeam.errors import InputError, ModelError

WRITTEN = {
    r'"\u00e4\t"': "ä\t", r'"\x41\xE4\U0001F600"': "Aä😀", r'"\ud83d\ude00!"': "😀!", r'"\\\"\/"': '\\"/',
    r'"\0\a\b\e\f\r\v\n"': "\0\a\b\x1b\f\r\v\n", r'"\N\_\L\P\ "': "\x85\xa0\u2028\u2029 ", '"\\\t"': "\t",
    r"'it''s \n'": r"it's \n", "''''": "'", "''": "", '""': "", '"a: b"': "a: b", "a:b": "a:b", r"a\n": r"a\n",
    '"a\x85b\u2028c"': "a\x85b\u2028c",
    "\u3000": "\u3000", "\xa0": "\xa0", '"ü" ': "ü", "it's": "it's", "-": "-", "</s>": "</s>",
}  # fmt: skip


def test_words_are_read_as_yaml_means_them(tmp_path):
    lines = "".join(f"{word}: {i}\r\n" for i, word in enumerate(WRITTEN))
    (tmp_path / "vocab.yml").write_bytes(b"\xef\xbb\xbf" + lines.encode())
    assert read_words(tmp_path / "vocab.yml") == list(WRITTEN.values())


@pytest.mark.parametrize("quote", ["'", '"'])
def test_words_are_those_that_pyyaml_writes(tmp_path, quote):
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    codes = (*range(0x20, 0x7F), 0xE4, 0x1F600, *(() if quote == "'" else (*range(0x20), *range(0x7F, 0xA1), 0x2028)))
    words = [*map(chr, codes), *(a + b for a in "\"'\\:# -" for b in "\"'\\:# -nx0")]
    written = [yaml.dump(word, default_style=quote, width=10**6).removesuffix("\n") for word in words]
    (tmp_path / "vocab.yml").write_text("".join(f"{word}: {i}\n" for i, word in enumerate(written)))
    assert read_words(tmp_path / "vocab.yml") == words


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (r'"\q"', "unknown escape character 'q'"),
        (r'"\u12"', "expected escape sequence of 4 hexadecimal"),
        (r'"\xg0"', "expected escape sequence of 2 hexadecimal"),
        (r'"\U00110000"', "not in range"),
        (r'"\ud83d"', "half of a pair of surrogates"),
        (r'"\ude00\ud83d"', "half of a pair of surrogates"),
        (r'"a\"', "is no text in quotes"),
        ('"a"b"', "is no text in quotes"),
        ("'a", "not in quotes from end to end"),
        ("'a'b'", "not in quotes from end to end"),
        ('"a": "b"', "not in quotes from end to end"),
        ("&a", "not in quotes from end to end"),
    ],
)
def test_what_yaml_cannot_mean_is_refused_by_line(tmp_path, word, message):
    (tmp_path / "vocab.yml").write_text(f"</s>: 0\n{word}: 1\n")
    with pytest.raises(ModelError, match=rf"vocab\.yml, line 2: .*{message}"):
        read_words(tmp_path / "vocab.yml")


def test_broken_utf8_is_refused_by_line(tmp_path):
    (tmp_path / "vocab.yml").write_bytes(b"</s>: 0\nb\xe4r: 1\n")
    with pytest.raises(InputError, match=r"vocab\.yml, line 2: byte 2 \(0xe4\) is not valid UTF-8"):
        read_words(tmp_path / "vocab.yml")


@pytest.mark.parametrize(("text", "words"), [("", 0), ("</s>: 0\na: 2\n", 2)])
def test_a_list_without_words_or_with_a_gap_is_refused(tmp_path, text, words):
    (tmp_path / "vocab.yml").write_text(text)
    with pytest.raises(ModelError, match=rf"vocab\.yml has {words} words; .* none left out"):
        read_words(tmp_path / "vocab.yml")
