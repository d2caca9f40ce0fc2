"""Recurrent models of Marian: what we answer is what its equations give, by a reference of their own in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from support.marian_reference import MarianRnn
from support.reference_search import greedy

from sharpbeam import Translator
from sharpbeam.convert.read import read_model
from sharpbeam.errors import ModelError

EMBEDDING, DIM, WORDS = 10, 6, 40
OPTIONS = {
    "type": "s2s", "enc-type": "bidirectional", "enc-cell": "gru", "enc-cell-depth": 1, "enc-depth": 1,
    "dec-cell": "gru", "dec-cell-base-depth": 2, "dec-cell-high-depth": 1, "dec-depth": 1, "skip": "false",
    "layer-normalization": "false", "right-left": "false", "tied-embeddings": "false",
}  # fmt: skip
AMUN = {  # as src/models/amun.h writes them
    "decoder_cell1_": "decoder_", "encoder_bi_r_": "encoder_r_", "encoder_bi_": "encoder_",
    "decoder_ff_logit_l1_W0": "ff_logit_prev_W", "decoder_ff_logit_l1_W1": "ff_logit_lstm_W",
    "decoder_ff_logit_l1_W2": "ff_logit_ctx_W", "decoder_ff_logit_l1_b0": "ff_logit_prev_b",
    "decoder_ff_logit_l1_b1": "ff_logit_lstm_b", "decoder_ff_logit_l1_b2": "ff_logit_ctx_b",
    "decoder_ff_logit_l2_W": "ff_logit_W", "decoder_ff_logit_l2_b": "ff_logit_b",
    "decoder_ff_state_W": "ff_state_W", "decoder_ff_state_b": "ff_state_b",
    "decoder_cell2_Ux": "decoder_Ux_nl", "decoder_cell2_U": "decoder_U_nl", "decoder_cell2_Wx": "decoder_Wcx",
    "decoder_cell2_W": "decoder_Wc", "decoder_cell2_bx": "decoder_bx_nl", "decoder_cell2_b": "decoder_b_nl",
    "decoder_Wemb": "Wemb_dec", "encoder_Wemb": "Wemb",
}  # fmt: skip


def weights(options, apart=True, tied=False):
    draw, arrays = np.random.default_rng(4), {}

    def put(name, *shape):
        arrays[name] = draw.normal(0, 0.7, shape).astype(np.float32)

    def gru(prefix, inputs):
        for name, width in (("", 2 * DIM), ("x", DIM)):
            put(f"{prefix}_U{name}", DIM, width)
            put(f"{prefix}_W{name}", inputs, width)
            put(f"{prefix}_b{name}", 1, width)

    for name in ("encoder_Wemb", "decoder_Wemb") if apart else ("Wemb",):
        put(name, WORDS, EMBEDDING)
    for stack in ("encoder_bi", "encoder_bi_r"):
        gru(stack, EMBEDDING)
        for layer in range(2, options["enc-depth"] + 1):
            gru(f"{stack}_l{layer}_cell1", DIM)
    gru("decoder_cell1", EMBEDDING)
    gru("decoder_cell2", 2 * DIM)
    for layer in range(2, options["dec-depth"] + 1):
        gru(f"decoder_l{layer}_cell1", DIM)
    for name, shape in (
        ("W_comb_att", (DIM, 2 * DIM)),
        ("Wc_att", (2 * DIM, 2 * DIM)),
        ("U_att", (2 * DIM, 1)),
        ("b_att", (1, 2 * DIM)),
        ("ff_state_W", (2 * DIM, DIM)),
        ("ff_state_b", (1, DIM)),
        ("ff_logit_l2_b", (1, WORDS)),
    ):
        put(f"decoder_{name}", *shape)
    for i, width in enumerate((EMBEDDING, DIM, 2 * DIM)):
        put(f"decoder_ff_logit_l1_W{i}", width, EMBEDDING)
        put(f"decoder_ff_logit_l1_b{i}", 1, EMBEDDING)
    if not tied:
        put("decoder_ff_logit_l2_W", EMBEDDING, WORDS)
    return arrays


def save(folder, arrays, options):
    folder.mkdir()
    config = "".join(f"{key}: {value}\n" for key, value in options.items()) + "\0"
    config = config.replace("skip:", "dim-vocabs:\n  - 40\n  - 40\nskip:")  # Marian's lists are nested lines
    np.savez(folder / "model.npz", **arrays, **{"special:model.yml": np.frombuffer(config.encode(), np.int8)})
    words = ["</s>", "<unk>", *(f"w{i}" for i in range(2, WORDS))]
    (folder / "vocab.yml").write_text("".join(f"{word}: {i}\n" for i, word in enumerate(words)))
    return folder / "model.npz"


def changed(**changes):
    return OPTIONS | {name.replace("_", "-"): value for name, value in changes.items()}


def amun_names(arrays):
    """The file that Marian writes for type amun: other names, vectors of one axis, and a matrix that means nothing."""
    result = {}
    for name, array in arrays.items():
        theirs = AMUN.get(name) or next(
            (new + name[len(old) :] for old, new in AMUN.items() if old.endswith("_") and name.startswith(old)), name
        )
        result[theirs] = array[0] if len(array) == 1 else array
    return result | {"decoder_c_tt": np.zeros((1, 0), np.float32)}


SHAPES = {
    "plain": ({}, {}),
    "three layers": ({"enc_depth": 3}, {}),
    "alternating, two layers": ({"enc_depth": 2, "enc_type": "alternating"}, {}),
    "alternating, three layers": ({"enc_depth": 3, "enc_type": "alternating"}, {"apart": False}),
    "two decoder layers": ({"dec_depth": 2}, {}),
    "all tied": ({"enc_cell": "gru-nematus", "dec_cell": "gru-nematus"}, {"apart": False, "tied": True}),
    "amun": ({"type": "amun"}, {}),
    "amun, tied source": ({"type": "amun"}, {"apart": False}),
}


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("shape", SHAPES)
def test_answers_are_those_of_marians_equations(tmp_path, shape, backend):
    if backend == "torch":
        pytest.importorskip("torch", reason="PyTorch is not installed")
    changes, kinds = SHAPES[shape]
    options = changed(**changes)
    arrays = weights(options, **kinds)
    stored = amun_names(arrays) if options["type"] == "amun" else arrays
    read_model(str(save(tmp_path / "marian", stored, options))).save(tmp_path / "ours", "rnn")
    if backend == "torch":
        from support.torch_model import torch_translator

        ours = torch_translator(tmp_path / "ours")
    else:
        ours = Translator(tmp_path / "ours", compute_type="float32")
    reference = MarianRnn(arrays, options)
    draw = np.random.default_rng(9)
    for length in (1, 4, 9):
        source = draw.integers(2, WORDS, length).tolist()
        text = " ".join(f"w{i}" for i in source)
        best = ours.translate([text], raw=True, beam_size=1, max_length=12)[0].hypotheses[0]
        assert [ours_word(token) for token in best.text.split()] == greedy(reference.log_probs, [*source, 0], 0, 12)
        for result in ours.translate([text], raw=True, beam_size=4, num_hypotheses=4, max_length=12)[0].hypotheses:
            words = [ours_word(token) for token in result.text.split()]
            target = [*words, 0][: len(result.token_scores)]
            expected = reference.log_probs([*source, 0], target)[range(len(target)), target]
            np.testing.assert_allclose(result.token_scores, expected, atol=2e-5)


def ours_word(word):
    return 1 if word == "<unk>" else int(word[1:])


def test_the_reference_sees_the_place_of_a_bias_and_the_start_state():
    """Details that our reader must keep apart change what the reference says, so the test above would see it."""
    options = changed(dec_depth=2)
    reference = MarianRnn(weights(options), options)
    source, target = [3, 4, 0], [5, 6, 7]
    expected = reference.log_probs(source, target)
    inner = reference.cell
    reference.cell = lambda prefix, x, state, final=False: inner(prefix, x, state, not final)
    assert np.abs(reference.log_probs(source, target) - expected).max() > 1e-2
    reference.cell = lambda prefix, x, state, final=False: inner(prefix, x, state, final)
    reference.p["decoder_ff_state_W"] = reference.p["decoder_ff_state_W"] * 0.9
    assert np.abs(reference.log_probs(source, target) - expected).max() > 1e-3


@pytest.mark.parametrize(
    ("fact", "value"),
    [
        ("enc_type", "bi-unidirectional"),
        ("enc_cell", "lstm"),
        ("dec_cell", "tanh"),
        ("enc_cell_depth", 2),
        ("dec_cell_base_depth", 4),
        ("dec_cell_high_depth", 2),
        ("dec_depth", 3),
        ("layer_normalization", "true"),
        ("right_left", "true"),
    ],
)
def test_what_we_lack_is_refused_by_name(tmp_path, fact, value):
    path = save(tmp_path / "marian", weights(OPTIONS), changed(**{fact: value}))
    with pytest.raises(ModelError, match=fact.replace("_", "-")):
        read_model(str(path))


def test_skips_are_refused_where_they_would_do_something(tmp_path):
    shallow, deep = changed(skip="true"), changed(skip="true", enc_depth=2)
    assert read_model(str(save(tmp_path / "shallow", weights(shallow), shallow))).config.encoder_layers == 1
    with pytest.raises(ModelError, match="skip"):
        read_model(str(save(tmp_path / "deep", weights(deep), deep)))


def test_an_array_that_is_left_over_is_refused(tmp_path):
    arrays = weights(OPTIONS) | {"decoder_cell3_U": np.zeros((DIM, 2 * DIM), np.float32)}
    with pytest.raises(ModelError, match="decoder_cell3_U"):
        read_model(str(save(tmp_path / "marian", arrays, OPTIONS)))
