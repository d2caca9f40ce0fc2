"""Bulk translation: packed files, records, and batches of other frameworks."""

from __future__ import annotations

import gzip
import json
import multiprocessing
import pickle
from pathlib import Path
from typing import Any

import pytest

from sharpbeam.api.translator import Translator
from sharpbeam.errors import InputError, OptionError
from sharpbeam.jobs import chunks
from sharpbeam.jobs.batch import TranslateBatch
from sharpbeam.jobs.translate_file import translate_file
from sharpbeam.text.glossary import read_glossary

OPTIONS: dict[str, Any] = {"beam_size": 2, "max_length": 12}


@pytest.fixture
def source(tmp_path: Path, sentences: list[str]) -> Path:
    path = tmp_path / "in"
    path.write_text("".join(line + "\n" for line in sentences[:21]))
    return path


@pytest.fixture
def whole(tiny_model: Path, source: Path) -> str:
    return "".join(t.text + "\n" for t in Translator(tiny_model).translate(source.read_text().splitlines(), **OPTIONS))


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_packed_files_are_read_and_written(
    tiny_model: Path, source: Path, whole: str, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if suffix == ".zst":
        pack: Any = pytest.importorskip("zstandard", reason="the extra bulk is not installed").compress
        unpack = pytest.importorskip("zstandard").open
    else:
        pack, unpack = gzip.compress, gzip.open
    packed, out = source.with_name("in" + suffix), source.with_name("out" + suffix)
    packed.write_bytes(pack(source.read_bytes()))
    monkeypatch.setattr(chunks, "CHUNK", 8)  # members one after another

    def interrupt(number: int) -> None:
        seen.append(number)
        if len(seen) == 18:
            raise KeyboardInterrupt

    seen: list[int] = []
    translator = Translator(tiny_model)
    with pytest.raises(KeyboardInterrupt):
        translate_file(translator, packed, out, progress=interrupt, **OPTIONS)
    translate_file(translator, packed, out, resume=True, **OPTIONS)
    packed.write_bytes(pack(b""))
    translate_file(translator, packed, source.with_name("none" + suffix), **OPTIONS)
    assert source.with_name("none" + suffix).read_bytes()[:2] == out.read_bytes()[:2]  # an archive, of nothing
    with unpack(out, "rb") as file:
        members = file.read().decode() if suffix == ".gz" else ""
    if suffix == ".zst":
        translate_file(translator, out, source.with_name("again"), **OPTIONS)  # all members are read
        assert len(source.with_name("again").read_text().splitlines()) == 21
    else:
        assert members == whole


def test_a_broken_zst_file_is_named(tiny_model: Path, source: Path) -> None:
    pytest.importorskip("zstandard", reason="the extra bulk is not installed")
    source.with_name("in.zst").write_bytes(b"not packed at all")
    with pytest.raises(InputError, match=r"cannot read .*in\.zst after line 0"):
        translate_file(tiny_model, source.with_name("in.zst"), source.with_name("out"))


def test_parts_of_a_file_one_after_another_are_the_whole(tiny_model: Path, source: Path, whole: str) -> None:
    translator, results = Translator(tiny_model), b""
    lines = source.read_text().splitlines(keepends=True)
    for number, part in enumerate((lines[:5], lines[5:12], lines[12:])):
        path, out = source.with_name(f"part{number}"), source.with_name(f"part{number}.gz")
        path.write_text("".join(part))
        translate_file(translator, path, out, **OPTIONS)
        results += out.read_bytes()
    assert gzip.decompress(results).decode() == whole


def test_records_get_a_field(tiny_model: Path, source: Path, whole: str) -> None:
    lines = source.read_text().splitlines()
    records = [{"id": number, "t": line} for number, line in enumerate(lines)] + [{"t": None}, {"t": ""}]
    source.write_text("".join(json.dumps(record) + "\n" for record in records) + "\n")
    out = source.with_name("out")
    stats = translate_file(tiny_model, source, out, field="t", into="pt", **OPTIONS)
    assert stats.source_words == len(" ".join(lines).split())  # without those of JSON
    results = out.read_text().splitlines()
    assert [json.loads(line)["pt"] for line in results[:21]] == whole.splitlines()
    assert [json.loads(line) for line in results[21:23]] == [{"t": None, "pt": ""}, {"t": "", "pt": ""}]
    assert (json.loads(results[3])["id"], results[23], len(results)) == (3, "", 24)
    numbers = '{"x":12345678901234567890123.5, "y":1.10,"y":1e400, "t": ""'
    source.write_text(numbers + " }\n")
    translate_file(tiny_model, source, out, field="t", into="pt", restart=True, **OPTIONS)
    assert out.read_text() == numbers + ', "pt": ""}\n'
    for line, message in (
        ("{", "line 2 is not JSON"),
        ("[]", "not a JSON object but list"),
        ('{"x": 1}', "no text 't'"),
        (r'{"t": "\ud800"}', "line 2: t 0 holds half a character"),
    ):
        source.write_text('{"t": "a"}\n' + line + "\n")
        with pytest.raises(InputError, match=message):
            translate_file(tiny_model, source, out, field="t", restart=True, **OPTIONS)
    source.write_text(r'{"t": "a", "id": "\ud800"}')
    translate_file(tiny_model, source, out, field="t", restart=True, **OPTIONS)
    assert json.loads(out.read_text())["id"] == "\ud800"
    for options in ({"format": "jsonl"}, {"flags": True}):
        with pytest.raises(OptionError, match="field is 't'; it must be left out with"):
            translate_file(tiny_model, source, out, field="t", restart=True, **options)


def test_a_batch_has_the_terms_of_a_termbase(tiny_model: Path, tmp_path: Path) -> None:
    terms = '<langSec xml:lang="de"><term>mike</term></langSec><langSec xml:lang="en"><term>Balo</term></langSec>'
    (tmp_path / "terms.tbx").write_text(f'<tbx xml:lang="de"><conceptEntry>{terms}</conceptEntry></tbx>')
    (tmp_path / "terms.tsv").write_text("mike\tBalo\n")
    for name in ("terms.tbx", "terms.tsv"):
        batch = TranslateBatch(tiny_model, glossary=read_glossary(tmp_path / name), **OPTIONS)
        assert "Balo" in pickle.loads(pickle.dumps(batch))({"text": ["Na mike nodi."]})["translation"][0]


def test_a_batch_gets_a_column_here_and_in_other_processes(tiny_model: Path, source: Path, whole: str) -> None:
    texts, expected = source.read_text().splitlines()[:6], whole.splitlines()[:6]
    batch = TranslateBatch(tiny_model, field="de", into="en", **OPTIONS)
    assert batch({"id": [0], "de": texts[:1]}) == {"id": [0], "de": texts[:1], "en": expected[:1]}
    assert pickle.loads(pickle.dumps(batch))({"de": [None, texts[1]]})["en"] == ["", expected[1]]
    assert len(pickle.dumps(batch)) < 2000  # no weights in it
    with pytest.raises(InputError, match=r"field is 'de'; the batch has the columns dee. Did you mean 'dee'"):
        batch({"dee": texts})
    with pytest.raises(InputError, match="give a list of texts, not a single one"):
        batch({"de": texts[0]})  # without batched=True
    halves = [{"de": texts[:3]}, {"de": texts[3:]}]
    for method in ("spawn", "fork"):  # after it was used here, threads and all
        with multiprocessing.get_context(method).Pool(1) as pool:
            results = pool.map_async(batch, halves).get(timeout=120)
        assert [text for part in results for text in part["en"]] == expected
