"""Models of Marian, made here under its names: the same tensors as CTranslate2's converter finds; students decode."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from support.foreign import demo_sentences, pieces_of, train_pieces
from support.marian_writer import WORDS, save

from sharpbeam import Translator
from sharpbeam.convert.conversion import read_model
from sharpbeam.convert.formats.weights import values
from sharpbeam.errors import InputError, ModelError


def test_tensors_are_those_of_ctranslate2s_converter(tmp_path):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    pytest.importorskip("yaml", reason="PyYAML is not installed")
    ours = read_model(str(save(tmp_path / "marian")))
    lines = [
        f"{piece!r}: {i}" if i > 1 else f"{piece}: {i}"
        for i, piece in enumerate(["</s>", "<unk>", *map(str, range(2, WORDS))])
    ]
    (tmp_path / "vocab.yml").write_text("\n".join(lines) + "\n")
    converter = ctranslate2.converters.MarianConverter(
        str(tmp_path / "marian/model.npz"), [str(tmp_path / "vocab.yml")] * 2
    )
    converter.convert(str(tmp_path / "ct2"))
    theirs = read_model(str(tmp_path / "ct2"))
    assert ours.tensors.keys() == theirs.tensors.keys()
    assert all(np.array_equal(ours.tensors[name], theirs.tensors[name]) for name in ours.tensors)
    # Its table of positions is that of Vaswani et al.; Marian computes tensor2tensor's, and an epsilon of 1e-6.
    assert (ours.config.positions, theirs.config.positions) == ("sinusoidal-t2t", "sinusoidal")


def test_a_student_decodes(tmp_path):
    path = save(tmp_path / "student", transformer_decoder_autoreg="rnn", dec_cell="ssru")
    model = read_model(str(path))
    assert model.config.decoder_kind == "ssru"
    model.save(tmp_path / "ours", "student")
    torch_model = pytest.importorskip("support.torch_model", reason="PyTorch is not installed")
    texts = demo_sentences()[:3]
    native, torch = (
        made.translate(texts, raw=True, max_length=9, beam_size=3)
        for made in (Translator(tmp_path / "ours"), torch_model.torch_translator(tmp_path / "ours"))
    )
    assert [a.hypotheses[0].tokens for a in native] == [b.hypotheses[0].tokens for b in torch]


@pytest.mark.parametrize("in_front", [False, True])
@pytest.mark.parametrize("student", [False, True])
def test_a_model_that_marian_decodes_otherwise_says_so(tmp_path, in_front, student):
    """Marian decodes pre-norm transformers unlike its training; an SSRU has no keys and values of earlier tokens."""
    norms = {"preprocess": "n", "postprocess": "da", "postprocess_top": "n"} if in_front else {}
    cell = {"transformer_decoder_autoreg": "rnn", "dec_cell": "ssru"} if student else {}
    path = save(tmp_path / "marian", **{f"transformer_{name}": value for name, value in norms.items()}, **cell)
    model = read_model(str(path))
    assert model.config.norm == ("pre" if in_front else "post")
    assert any("Marian's own decoder" in note for note in model.notes) == (in_front and not student)


@pytest.mark.parametrize("shape", [(), (2, 3, 4), (5,)])
@pytest.mark.parametrize("name", ["Wemb", "decoder_l2_ffn_W1"])
def test_a_matrix_of_other_axes_is_refused(tmp_path, name, shape):
    path = save(tmp_path / "marian")
    with np.load(path) as arrays:
        np.savez(path, **{**arrays, name: np.zeros(shape, np.float32)})
    with pytest.raises(ModelError, match=rf"{name}.* must have (two axes|\(24, 16\))"):
        read_model(str(path))


def test_a_header_without_a_type_is_refused(tmp_path):
    header = b"{'descr': (), 'fortran_order': False, 'shape': (2,), }\n"
    with zipfile.ZipFile(tmp_path / "model.npz", "w") as archive:
        archive.writestr("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(8))
    with pytest.raises(ModelError, match=r"cannot be read as \.npz"):
        read_model(str(tmp_path / "model.npz"))


SPECIAL = {"unk_id": 1, "eos_id": 0, "bos_id": -1, "pad_id": -1}


def pieces_file(path, count, first=0, **special):
    """A SentencePiece model of `count` pieces, of the sentences from the `first` one on."""
    path.write_bytes(train_pieces(demo_sentences()[first:], count, **SPECIAL | special))
    return path


def test_a_list_of_words_is_refused(tmp_path):
    words = tmp_path / "vocab.yml"
    words.write_text("</s>: 0\n<unk>: 1\n")
    with pytest.raises(ModelError, match=r"vocab\.yml is a list of words; models whose vocabulary is of SentencePiece"):
        read_model(str(save(tmp_path / "marian")), words)


def test_a_list_of_words_that_the_options_name_is_refused_whatever_is_given(tmp_path):
    """OPUS-MT's own archives: pieces have the numbers of the list, not those of source.spm, which cuts the text."""
    path = save(tmp_path / "marian")
    (path.parent / "opus.vocab.yml").write_text("</s>: 0\n<unk>: 1\n")
    (path.parent / "decoder.yml").write_text(f"models: [{path.name}]\nvocabs: [opus.vocab.yml, opus.vocab.yml]\n")
    with pytest.raises(ModelError, match=r"opus\.vocab\.yml is a list of words"):
        read_model(str(path), pieces_file(tmp_path / "source.spm", 60))


def test_a_piece_that_is_no_text_is_refused(tmp_path):
    """SentencePiece itself reads such a model, and fails when the piece is asked for."""
    path = save(tmp_path / "marian")
    good = train_pieces(demo_sentences(), WORDS)
    broken = tmp_path / "broken.spm"
    broken.write_bytes(b"\x0a\x0b\x0a\x02\xff\xfe\x15\0\0\0\0\x18\x01" + good)
    with pytest.raises(ModelError, match=r"broken\.spm cannot be read as a SentencePiece model"):
        read_model(str(path), broken)


def test_no_source_piece_is_lost_where_the_source_has_more(tmp_path):
    """The token that the decoder starts from has one id on both sides, which must not be that of a source piece."""
    path = save(tmp_path / "apart", source_words=WORDS + 5)
    source = pieces_file(tmp_path / "source.spm", WORDS + 5)
    model = read_model(str(path), source, path.with_name("vocab.spm"))
    pieces = pieces_of(source.read_bytes())
    listed = [model.source.piece(token) for token in range(len(model.source))]
    ids = [listed.index(piece) for piece in pieces[2:]]
    with np.load(path) as arrays:
        assert np.array_equal(model.tensors["source_embedding"][ids], arrays["encoder_Wemb"][2:])
    assert not model.tensors["source_embedding"][model.config.bos_id].any()
    assert model.config.suppressed_ids == (model.config.unk_id,)  # for the others their bias is enough
    model.save(tmp_path / "ours", "apart")
    native = Translator(tmp_path / "ours")
    answer = native.translate(["Guten Morgen"], raw=True, max_length=9, beam_size=9, num_hypotheses=9)[0]
    assert len(answer.hypotheses) == 9 and all("<start>" not in one.tokens for one in answer.hypotheses)


def test_a_source_that_is_smaller_or_has_other_special_ids_is_refused(tmp_path):
    path = save(tmp_path / "smaller", source_words=WORDS - 5)
    target = path.with_name("vocab.spm")
    with pytest.raises(ModelError, match="smaller than the target's"):
        read_model(str(path), pieces_file(tmp_path / "source.spm", WORDS - 5), target)
    path = save(tmp_path / "other", source_words=WORDS)
    other = pieces_file(tmp_path / "other.spm", WORDS, unk_id=0, eos_id=1)
    with pytest.raises(ModelError, match=r"unk_id 1 is '</s>' in the source vocabulary and '<unk>' in the target's"):
        read_model(str(path), other, target)


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("type", "multi-s2s"),
        ("transformer_attention_mask", "alibi"),
        ("transformer_pool", "true"),
        ("transformer_ffn_depth", 3),
        ("transformer_postprocess", "dhn"),
        ("transformer_ffn_activation", "tanh"),
    ],
)
def test_what_we_lack_is_refused_by_name(tmp_path, fact, value):
    with pytest.raises(ModelError, match=fact.replace("_", "-")):
        read_model(str(save(tmp_path / "other", **{fact: value})))


def test_a_folder_in_which_marian_has_trained_is_read(tmp_path):
    """Next to model.npz Marian leaves its optimiser's state, its options, its progress and what its decoder needs."""
    path = save(tmp_path / "trained")
    np.savez(path.with_name("model.npz.optimizer.npz"), adam_mt=np.zeros(3, np.float32))
    for name in ("yml", "progress.yml", "decoder.yml"):
        path.with_name(f"model.npz.{name}").write_text("seed: 1\n")
    assert read_model(str(path.parent)).config.target_vocab_size == WORDS + 1


def test_a_vocabulary_is_found_among_other_files(tmp_path):
    """Whatever it is called; a file of options is none."""
    path = save(tmp_path / "marian")
    expected = path.with_name("vocab.spm").rename(path.with_name("decoder.spm")).read_bytes()
    for options in ("beam-size: 6\nmodels:\n  - model.npz\n", "beam-size: 6\nnormalize: 1\n"):
        path.with_name("config.yml").write_text(options)
        assert read_model(str(path)).source.spm == expected
    other = pieces_file(path.with_name("other.spm"), WORDS, 5)
    with pytest.raises(ModelError, match=r"has 2 vocabularies \(\.spm\), decoder\.spm, other\.spm; say which"):
        read_model(str(path))
    assert read_model(str(path), other).target.spm == other.read_bytes()
    for one in ("other.spm", "decoder.spm"):
        path.with_name(one).unlink()
    with pytest.raises(ModelError, match=r"has 0 vocabularies"):
        read_model(str(path))


@pytest.mark.parametrize("options", ["model.npz.decoder.yml", "model.npz.yml"])
def test_vocabularies_are_those_that_marian_has_noted(tmp_path, options):
    path = save(tmp_path / "apart", source_words=WORDS + 5)
    files = {"source": WORDS + 5, "target": WORDS, "other": WORDS}
    spms = [pieces_file(path.with_name(f"{name}.spm"), n, i).read_bytes() for i, (name, n) in enumerate(files.items())]

    def note(*names):
        lines = "".join(f"  - {name}\n" for name in names)
        path.with_name(options).write_text(f"models:\n  - /home/m/model.npz\nvocabs:\n{lines}beam-size: 6\n")

    def sides(**fields):
        model = read_model(str(path), **fields)
        return [spms.index(model.source.spm), spms.index(model.target.spm)]

    note("/home/m/source.spm", '"target.spm"')
    assert sides() == [0, 1]
    assert sides(target_spm=path.with_name("other.spm")) == [0, 2]
    assert sides(source_spm=path.with_name("other.spm")) == [2, 2]
    note("other.spm")
    assert sides() == [2, 2]
    for names in (["source.spm", "none.spm"], ["source.spm", "target.spm", "other.spm"], [], ['""']):
        note(*names)
        with pytest.raises(ModelError, match=r"has 4 vocabularies \(\.spm\), other\.spm, source\.spm, target\.spm"):
            read_model(str(path))


@pytest.mark.parametrize("rounded", [False, True])
def test_a_binary_file_is_the_same_model(tmp_path, monkeypatch, rounded):
    """Plain, or with matrices in int8 and one scale for each: then within half a step of it."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3]))
    from bench.engines.marian_model import binary

    path = save(tmp_path / "marian")
    npz = read_model(str(path))
    with np.load(path) as arrays:
        raw = binary(dict(arrays), rounded)
    path.with_name("model.bin").write_bytes(raw)
    path.unlink()
    result = read_model(str(path.parent))  # a folder with a model.bin that is not CTranslate2's
    assert result.config == npz.config
    for name, tensor in npz.tensors.items():
        step = np.abs(tensor).max() / 127 if rounded and tensor.ndim == 2 else 0.0
        assert np.abs(values(result.tensors[name]) - tensor).max() <= 0.501 * step, name
    for broken in (raw[: len(raw) // 2], raw[:16] + bytes(8) + b"\xff" * 8 + raw[32:]):
        path.with_name("model.bin").write_bytes(broken)
        with pytest.raises(ModelError, match=r"model\.bin.* (cannot be read|has type)"):
            read_model(str(path.parent))


@pytest.mark.parametrize(
    ("version", "activation"),
    [("v1.12.42 b7be0e964 2025-05-24", "gelu"), ("v1.12.2 1", "gelu_sigmoid"), ("v1.9.0 ba94c5b9", "gelu_sigmoid")],
)
def test_gelu_is_that_of_the_version_that_wrote_the_model(tmp_path, version, activation):
    path = save(tmp_path / "marian", transformer_ffn_activation="gelu", version=version)
    assert read_model(str(path)).config.activation == activation


def test_of_several_models_one_has_to_be_named(tmp_path):
    path = save(tmp_path / "marian")
    path.with_name("model.best-bleu.npz").write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=r"holds 2 models; give one of .*model\.best-bleu\.npz, .*model\.npz\."):
        read_model(str(path.parent))
