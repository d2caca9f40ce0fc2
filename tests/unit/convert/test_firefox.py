"""Model folders written for Firefox: what was read from there goes back the same; what Marian lacks is refused."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from support import marian_writer
from support.foreign import demo_sentences
from support.marian_writer import WORDS, save

pytest.importorskip("torch")

from sharpbeam import Translator
from sharpbeam.convert.conversion import read_model
from sharpbeam.convert.firefox import MODEL, SHORTLIST, check_facts, write_firefox
from sharpbeam.convert.formats import marian
from sharpbeam.convert.formats.marian import read_marian_file
from sharpbeam.convert.formats.weights import values
from sharpbeam.errors import ModelError, OutputError
from sharpbeam.models.transformer.positions import sinusoid
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.storage.marian_shortlist import read_marian_shortlist, write_marian_shortlist
from sharpbeam.storage.model_folder import read_facts, read_tensors

DIM = 64
STUDENT = {"transformer_decoder_autoreg": "rnn", "dec_cell": "ssru"}
LISTS = [[*range(60, 110)], [8], *[[i, 5] for i in range(2, WORDS)]]
CONFIG = f"""models: [model.bin]
vocabs: [vocab.spm, vocab.spm]
shortlist: [{SHORTLIST}, false]
beam-size: 2
normalize: 0.5
max-length-factor: 2.5
"""


def shipped(folder: Path, monkeypatch: pytest.MonkeyPatch, **options: str) -> Path:
    """A folder as Firefox has it, of random weights, and `ours` next to it, which was converted from it."""
    monkeypatch.setattr(marian_writer, "DIM", DIM)
    monkeypatch.setattr(marian_writer, "FFN", 128)
    path = save(folder, **options)
    with np.load(path) as arrays:
        (folder / "model.bin").write_bytes(marian_writer.binary(dict(arrays), 0x4101, alphas=True))
    path.unlink()
    (folder / "config.yml").write_text(CONFIG)
    (folder / SHORTLIST).write_bytes(marian_writer.shortlist(5, LISTS))
    read_model(str(folder)).save(folder.with_name("ours"), "ours")
    return folder


@pytest.mark.parametrize("options", [STUDENT, {}], ids=["student", "transformer"])
def test_the_way_back_is_the_same_to_the_bit(tmp_path, monkeypatch, options):
    folder = shipped(tmp_path / "firefox", monkeypatch, **options)
    assert "with shortlist" in write_firefox(tmp_path / "ours", tmp_path / "back", demo_sentences()[:3])
    theirs, back = (read_marian_file(path) for path in (folder / "model.bin", tmp_path / "back" / MODEL))
    assert theirs.keys() == back.keys()
    for name in theirs.keys() - {"special:model.yml"}:
        assert type(theirs[name]) is type(back[name]), name
        assert np.array_equal(values(theirs[name]), values(back[name])), name
    for name in (SHORTLIST, "vocab.spm"):
        assert (folder / name).read_bytes() == (tmp_path / "back" / name).read_bytes(), name
    first, second = read_model(str(folder)), read_model(str(tmp_path / "back"))
    assert first.config == second.config and dict(first.decoding) == dict(second.decoding)


def test_input_scales_are_of_the_largest_inputs_of_sentences(tmp_path, monkeypatch):
    shipped(tmp_path / "firefox", monkeypatch, **STUDENT)
    texts = demo_sentences()[:4]
    write_firefox(tmp_path / "ours", tmp_path / "back", texts)
    loaded = Translator(tmp_path / "ours").loaded
    tensors, largest = read_tensors(tmp_path / "ours", loaded.config), list[float]()
    for text in texts:
        ids = [*loaded.source.encode(text), loaded.config.eos_id]
        inputs = tensors["target_embedding"][ids] * DIM**0.5 + sinusoid("sinusoidal-t2t", 0, len(ids), DIM)
        largest.append(float(np.abs(inputs).max()))
    scale = 127 / (np.mean(largest) + 1.1 * np.std(largest))
    monkeypatch.setattr(marian, "INPUT_SCALE", "none of them")  # which the reader leaves out
    arrays = read_marian_file(tmp_path / "back" / MODEL)
    for letter in "qkv":  # whose input is one
        assert arrays[f"encoder_l1_self_W{letter}_QuantMultA"] == pytest.approx(scale, rel=1e-5)
    assert {"none_QuantMultA", "decoder_l2_rnn_Wf_QuantMultA", "decoder_l1_context_Wo_QuantMultA"} <= arrays.keys()


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("positions", "sinusoidal"), ("norm_epsilon", 1e-5), ("activation", "gelu"), ("norm", "pre"),
        ("decoder_ffn_dim", 256), ("decoder_heads", 2), ("source_eos", False), ("target_begin", (4,)),
    ],
)  # fmt: skip
def test_a_fact_that_marian_lacks_is_refused_by_name(tmp_path, monkeypatch, fact, value):
    shipped(tmp_path / "firefox", monkeypatch, **STUDENT)
    config = read_facts(tmp_path / "ours").config
    check_facts(config, WORDS)
    with pytest.raises(ModelError, match=f"^{fact} is .* in a model of Firefox"):
        check_facts(dataclasses.replace(config, **{fact: value}), WORDS)


def test_other_models_and_places_are_refused(tmp_path, monkeypatch):
    shipped(tmp_path / "firefox", monkeypatch, **STUDENT)
    with pytest.raises(OutputError, match="is there already"):
        write_firefox(tmp_path / "ours", tmp_path / "firefox")
    with pytest.raises(ModelError, match=r"hidden_dim is .* transformer"):
        write_firefox("de-en", tmp_path / "new")
    model = read_model(str(tmp_path / "firefox"))
    bias = dict(model.tensors)["decoder.0.ssru.cell.bias"].copy()
    bias[3] = 0.25
    changed = dataclasses.replace(model, tensors={**model.tensors, "decoder.0.ssru.cell.bias": bias}, shortlist=None)
    changed.save(tmp_path / "biased", "biased")
    with pytest.raises(ModelError, match=r"first half of decoder\.0\.ssru\.cell\.bias is not zero.* train\.exportable"):
        write_firefox(tmp_path / "biased", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_shortlist_keeps_its_sets(tmp_path):
    """Tokens of every set that are not the first ids come to the translations of eos, which ends every source."""
    draw, count, eos = np.random.default_rng(4), 40, 2
    lists = [np.sort(draw.choice(count, draw.integers(0, 6), replace=False)) for _ in range(count)]
    start = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    shortlist = Shortlist(np.array([0, 1, 2, 3, 17, 30], np.int32), start, np.concatenate(lists).astype(np.int32))
    write_marian_shortlist(tmp_path / "lex.bin", shortlist, count, eos)
    back = read_marian_shortlist(tmp_path / "lex.bin", count, count, {0}, shared=True)
    for _ in range(20):
        source = np.array([*draw.integers(4, count, 5), eos], np.int32)
        assert set(back.tokens(source)) == set(shortlist.tokens(source)) | set(source.tolist())
