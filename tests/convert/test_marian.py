"""Models of Marian, made here under its names: the same tensors as CTranslate2's converter finds; students decode."""

from __future__ import annotations

import numpy as np
import pytest
from foreign import demo_sentences, train_pieces

from quickbeam import Translator
from quickbeam.convert.read import read_model
from quickbeam.errors import ModelError
from quickbeam.options.decode import MachineOptions

DIM, FFN, WORDS = 16, 24, 120
OPTIONS = {
    "type": "transformer", "enc-depth": 2, "dec-depth": 2, "transformer-heads": 4, "transformer-ffn-depth": 2,
    "transformer-ffn-activation": "relu", "transformer-preprocess": '""', "transformer-postprocess": "dan",
    "transformer-postprocess-emb": "d", "transformer-postprocess-top": '""', "transformer-no-projection": "false",
    "transformer-decoder-autoreg": "self-attention", "transformer-guided-alignment-layer": "last", "dec-cell": "gru",
}  # fmt: skip


def save(folder, **changes):
    options = OPTIONS | {name.replace("_", "-"): value for name, value in changes.items()}
    draw, arrays = np.random.default_rng(2), {}

    def put(name, *shape):
        arrays[name] = draw.normal(0, 0.3, shape).astype(np.float32) + ("scale" in name)

    put("Wemb", WORDS, DIM)
    put("decoder_ff_logit_out_b", 1, WORDS)
    for side in ("encoder", "decoder"):
        for layer in ("l1", "l2"):
            blocks = ["self"] if side == "encoder" else ["self", "context"]
            if options["dec-cell"] == "ssru" and side == "decoder":
                blocks = ["context"]
                for name in ("W", "Wf"):
                    put(f"{side}_{layer}_rnn_{name}", DIM, DIM)
                put(f"{side}_{layer}_rnn_bf", 1, DIM)
            for block in blocks:
                for letter in "qkvo":
                    put(f"{side}_{layer}_{block}_W{letter}", DIM, DIM)
                    put(f"{side}_{layer}_{block}_b{letter}", 1, DIM)
            norms = (
                [f"{block}_Wo" for block in blocks]
                + ["ffn_ffn"]
                + (["rnn_ffn"] if len(blocks) == 1 and side == "decoder" else [])
            )
            for norm in norms:
                put(f"{side}_{layer}_{norm}_ln_scale", 1, DIM)
                put(f"{side}_{layer}_{norm}_ln_bias", 1, DIM)
            for number, shape in ((1, (DIM, FFN)), (2, (FFN, DIM))):
                put(f"{side}_{layer}_ffn_W{number}", *shape)
                put(f"{side}_{layer}_ffn_b{number}", 1, shape[1])
    config = "".join(f"{key}: {value}\n" for key, value in options.items()) + "\0"
    arrays["special:model.yml"] = np.frombuffer(config.encode(), np.int8)
    folder.mkdir()
    np.savez(folder / "model.npz", **arrays)
    (folder / "vocab.spm").write_bytes(train_pieces(demo_sentences(), WORDS, unk_id=1, eos_id=0, bos_id=-1, pad_id=-1))
    return folder / "model.npz"


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
    again = read_model(str(tmp_path / "marian/model.npz"), tmp_path / "vocab.yml")
    assert again.target.piece(7) == "7" and again.source.spm is None


def test_a_student_decodes(tmp_path):
    path = save(tmp_path / "student", transformer_decoder_autoreg="rnn", dec_cell="ssru")
    model = read_model(str(path))
    assert model.config.decoder_kind == "ssru"
    model.save(tmp_path / "ours", "student")
    texts = demo_sentences()[:3]
    native, torch = (
        Translator(tmp_path / "ours", machine=MachineOptions(backend=backend)).translate(
            texts, max_length=9, beam_size=3
        )
        for backend in ("native", "torch")
    )
    assert [a.hypotheses[0].tokens for a in native] == [b.hypotheses[0].tokens for b in torch]


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("type", "s2s"),
        ("transformer_ffn_depth", 3),
        ("transformer_postprocess", "dhn"),
        ("transformer_ffn_activation", "tanh"),
    ],
)
def test_what_we_lack_is_refused_by_name(tmp_path, fact, value):
    with pytest.raises(ModelError, match=fact.replace("_", "-")):
        read_model(str(save(tmp_path / "other", **{fact: value})))
