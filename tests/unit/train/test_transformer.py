"""The transformer from the recipe to the answer, with attention and with recurrent units in its decoder."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from support.torch_model import torch_translator  # noqa: E402

from sharpbeam.api.translator import Translator  # noqa: E402
from sharpbeam.convert.conversion import convert_model  # noqa: E402
from sharpbeam.convert.firefox import write_firefox  # noqa: E402
from sharpbeam.errors import ModelError, OptionError  # noqa: E402
from sharpbeam.train.loop import Trainer  # noqa: E402
from sharpbeam.train.translation import BRANCH  # noqa: E402

FACTS = {
    "architecture": "transformer",
    "hidden_dim": 16,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_heads": 2,
    "decoder_heads": 4,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 24,
    "shared_embedding": True,
    "tied_output": True,
}
SSRU = FACTS | {"decoder_kind": "ssru", "norm": "post", "encoder_final_norm": False, "decoder_final_norm": False}
EXPERTS = FACTS | {"experts": 6, "encoder_expert_step": 2, "decoder_expert_step": 1}
TEXTS = ["ba ce di", "lo mu", "gu ha je ki"]
SEARCHES = [
    {},
    {"beam_size": 4, "num_hypotheses": 2},
    {"beam_size": 3, "schedule": "stream"},
    {"beam_size": 3, "cube_pruning": "exact"},
]


@pytest.mark.parametrize("facts", [FACTS, SSRU, EXPERTS], ids=["attention", "ssru", "experts"])
def test_it_learns_and_its_folder_translates_the_same_as_pytorch(facts, recipe, train, toy):
    made = dataclasses.replace(recipe, model=facts)
    options = {"label_smoothing": 0.0, "dropout": 0.0, "average_decay": 0.0, "schedule": "inverse_sqrt"}
    lines = [m for m in train(made, "run", max_steps=100, validate_every=100, **options) if "nll" in m]
    assert lines[-1]["nll"] < 0.75 * lines[0]["nll"]
    native, pytorch = Translator(toy / "run/best"), torch_translator(toy / "run/best")
    for search in SEARCHES:
        ours, theirs = native.translate(TEXTS, **search), pytorch.translate(TEXTS, **search)
        assert [a.text for a in ours] == [b.text for b in theirs]
        assert any(a.text for a in ours)
        for a, b in zip(ours, theirs, strict=True):
            assert a.score == pytest.approx(b.score, abs=1e-4)


def test_a_post_norm_student_begins_with_small_branches(recipe, toy):
    model = Trainer(dataclasses.replace(recipe, model=SSRU), toy, toy / "run").model
    ends = [model.encoder[0].attention.out, model.encoder[0].ffn.down, model.decoder[0].cross.out]
    for layer in (model.encoder[0].attention.qkv, *ends):
        largest = layer.weight.abs().max().item()
        parts = 3 if layer is model.encoder[0].attention.qkv else 1
        bound = (6 / (layer.in_features + layer.out_features / parts)) ** 0.5  # of Glorot's uniform distribution
        share = BRANCH if layer in ends else 1.0
        assert 0.8 * share * bound < largest <= share * bound


def test_muon_leaves_mixtures_of_experts_to_adam(recipe, toy):
    made = dataclasses.replace(recipe, model=EXPERTS, train=dataclasses.replace(recipe.train, optimizer="muon"))
    trainer = Trainer(made, toy, toy / "run")
    names = {parameter: name for name, parameter in trainer.model.named_parameters()}
    adam = {names[parameter] for parameter in trainer.optimizers[0].param_groups[0]["params"]}
    assert {"encoder.1.ffn.router.weight", "encoder.1.ffn.up.weight", "encoder.1.ffn.down.weight"} <= adam
    assert "encoder.0.ffn.up.weight" not in adam


def test_muon_has_the_matrices_of_hidden_vectors_and_adam_all_else(recipe, toy):
    made = dataclasses.replace(recipe, model=SSRU, train=dataclasses.replace(recipe.train, optimizer="muon"))
    trainer = Trainer(made, toy, toy / "run")
    names = {parameter: name for name, parameter in trainer.model.named_parameters()}
    adam, muon = ({names[p] for p in one.param_groups[0]["params"]} for one in trainer.optimizers)
    assert {"target_embedding", "output_bias", "encoder.0.ffn.norm.weight", "encoder.1.attention.qkv.bias"} <= adam
    assert {"encoder.1.attention.qkv.weight", "decoder.0.ssru.cell.weight", "decoder.0.ffn.down.weight"} <= muon
    assert len(adam) + len(muon) == len(adam | muon) == len(names)


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_a_killed_run_goes_on_with_the_same_losses(recipe, train, losses, toy, optimizer):
    made = dataclasses.replace(recipe, model=FACTS)
    options = {"schedule": "inverse_sqrt", "max_steps": 20, "validate_every": 10, "optimizer": optimizer}
    train(made, "whole", **options)
    train(made, "parts", **options | {"max_steps": 10})
    train(made, "parts", **options)
    whole, parts = ({m["step"]: m["loss"] for m in losses(toy / name) if "loss" in m} for name in ("whole", "parts"))
    assert len(whole) == 6
    assert whole == parts


def test_the_balance_loss_spreads_positions_over_the_experts(recipe, train, toy):
    """The share of the busiest expert in the first mixture, at equal steps."""
    busiest, chosen = {}, []
    for weight in (0.0, 1.0):
        name = f"balance-{weight}"
        train(dataclasses.replace(recipe, model=EXPERTS), name, max_steps=60, expert_balance=weight, dropout=0.0)
        model = torch_translator(toy / name / "best").loaded.model.module
        hook = model.encoder[1].ffn.router.register_forward_hook(lambda part, inputs, result: chosen.append(result))
        model(torch.arange(4, 24)[None], None, torch.arange(4, 24)[None])
        hook.remove()
        busiest[weight] = int(torch.bincount(chosen.pop().argmax(dim=-1), minlength=6).max())
    assert busiest[1.0] < busiest[0.0]


def test_learned_positions_bound_source_and_target(recipe, train, toy, caplog):
    """Neither a long text nor a long answer may leave the table; a text that is cut says so."""
    made = dataclasses.replace(recipe, model=FACTS | {"positions": "learned", "max_positions": 40})
    train(made, "run", max_steps=5, validate_every=5)
    for translator in (Translator(toy / "run/best"), torch_translator(toy / "run/best")):
        with pytest.raises(OptionError, match=r"max_length is 256; it must be at most 40"):
            translator.translate(TEXTS, max_length=256)
        short, long = translator.translate(["ba ce", "ba ce di " * 30], max_length=40, min_length=39)
        assert (short.truncated, long.truncated) == (False, True)
        assert "cut off (the model has positions for 40" in caplog.text


def test_one_model_of_many_directions(recipe, train, toy):
    """The third column is in a language that says the source's words as they are: its token makes the difference."""
    for name in ("train", "valid"):
        lines = (toy / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
        copies = "".join(f"{line.split(chr(9))[0]}\t{line.split(chr(9))[0]}\n" for line in lines)
        (toy / f"{name}.copy.tsv").write_text(copies, encoding="utf-8")
    data = dataclasses.replace(
        recipe.data,
        train=("train.tsv", "train.copy.tsv"),
        valid=("valid.tsv", "valid.copy.tsv"),
        languages=("a-b", "a-c"),
    )
    made = dataclasses.replace(recipe, model=FACTS, data=data)
    options = {"label_smoothing": 0.0, "dropout": 0.0, "average_decay": 0.0}
    train(made, "run", max_steps=150, validate_every=150, **options)
    translator = Translator(toy / "run/best")
    backwards, copied = (translator.translate(TEXTS, target_language=code) for code in ("b", "c"))
    assert [a.text for a in backwards] != [b.text for b in copied]
    with pytest.raises(OptionError, match="languages"):
        train(dataclasses.replace(made, model={}), "other")


def test_an_exportable_student_is_written_for_firefox_and_comes_back_the_same(recipe, train, toy):
    """The embedding of bos and the SSRU's bias, which Marian lacks, stay zero; other runs are refused by name."""
    facts = SSRU | {"hidden_dim": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "encoder_heads": 4}
    facts |= {"positions": "sinusoidal-t2t", "norm_epsilon": 1e-6}
    made = dataclasses.replace(recipe, model=facts)
    train(made, "plain", max_steps=20, precision="float32")
    with pytest.raises(ModelError, match=r"bos is not zero.*train\.exportable"):
        write_firefox(toy / "plain/best", toy / "refused")
    train(made, "run", max_steps=100, validate_every=100, exportable=True, dropout=0.0)
    write_firefox(toy / "run/best", toy / "firefox", TEXTS)
    convert_model(toy / "firefox", toy / "back")
    ours, back = (Translator(toy / name).translate(TEXTS, raw=True) for name in ("run/best", "back"))
    assert [a.text for a in ours] == [b.text for b in back] and any(a.text for a in ours)
    with pytest.raises(ModelError, match="positions is 'sinusoidal'"):
        train(dataclasses.replace(made, model=facts | {"positions": "sinusoidal"}), "other", exportable=True)
    train(made, "tuned", max_steps=2, start="plain/best", exportable=True)  # whose bos is not zero
    write_firefox(toy / "tuned/best", toy / "tuned/firefox")
