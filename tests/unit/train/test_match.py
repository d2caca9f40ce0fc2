"""recipes/match.py: a student that learns what its teacher computes."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from sharpbeam import Translator
from sharpbeam.options.train import DataOptions, TrainOptions, VocabularyOptions
from sharpbeam.storage.model_folder import read_config, read_tensors
from sharpbeam.train.loop import TASKS
from sharpbeam.train.recipe import read_recipe
from sharpbeam.train.translation import ParallelData

ROOT = Path(__file__).parents[3]
TEACHER = ROOT / "models/en-pt"
RECIPE = """
name = "small"
[data]
train = ["train.tsv"]
valid = ["valid.tsv"]
[model]
architecture = "transformer"
encoder_layers = {}
decoder_layers = {}
[train]
max_steps = 24
batch_tokens = 256
optimizer = "muon"
learning_rate = 4e-3
warmup_steps = 6
dropout = 0.0
label_smoothing = 0.0
exportable = true
precision = "float32"
threads = 1
log_every = 6
"""
SOURCES = [
    f"{subject} {verb} {end}"
    for subject in ("The old man", "My sister", "The children", "A woman from London", "Our neighbor", "The company")
    for verb in ("reads the newspaper", "bought a new house", "wants to go home", "has found the keys")
    for end in ("today.", "in the morning.", "with a friend.", "because it is cold.")
]


@pytest.fixture(scope="module")
def match():
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("match", ROOT / "recipes/match.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """The teacher's answers."""
    folder = tmp_path_factory.mktemp("text")
    answers = Translator(TEACHER).translate(SOURCES, beam_size=1)
    lines = [f"{source}\t{answer.text}\n" for source, answer in zip(SOURCES, answers, strict=True)]
    (folder / "train.tsv").write_text("".join(lines), encoding="utf-8")
    (folder / "valid.tsv").write_text("".join(lines[:8]), encoding="utf-8")
    return folder


def task(match, text, encoder_layers, decoder_layers):
    """The task of a student with so many layers, and a batch."""
    path = text / f"{encoder_layers}-{decoder_layers}.toml"
    path.write_text(RECIPE.format(encoder_layers, decoder_layers), encoding="utf-8")
    made = match.MatchingTask(TEACHER, read_recipe(path, text), text, text)
    return made, next(iter(made.epoch(0, 0)))


def test_a_student_with_the_weights_of_its_teacher_has_nothing_to_learn(match, text):
    torch.manual_seed(1)
    made, batch = task(match, text, 6, 2)
    student = made.module().eval()
    weights = {name: torch.tensor(value) for name, value in read_tensors(TEACHER, read_config(TEACHER)).items()}
    fresh, words = made.loss(student, batch)
    assert float(fresh.detach()[0]) > 10 * words
    student.load_state_dict(weights)
    figures, words = made.loss(student, batch)
    loss, divergence, _, equal = figures.tolist()
    assert abs(loss) < 1e-5 * words and abs(divergence) < 1e-5 * words and equal == words
    for name in ("encoder.3.attention.out.weight", "decoder.1.cross.query.weight", "target_embedding", "output_bias"):
        student.load_state_dict(weights | {name: weights[name] + torch.randn(weights[name].shape)})
        assert float(made.loss(student, batch)[0].detach()[0]) > 1e-4 * words, name


def test_padding_changes_no_loss(match, text, monkeypatch):
    monkeypatch.setattr(match, "SHARE", 1.0)
    made, batch = task(match, text, 3, 1)
    student, pad = made.module().eval(), made.train_data.pad
    before, words = made.loss(student, batch)
    mask = batch.source != pad
    source, target, label = (
        torch.nn.functional.pad(one, (0, 3), value=pad) for one in (batch.source, batch.target, batch.label)
    )
    after, same = made.loss(
        student,
        replace(batch, source=source, source_mask=torch.nn.functional.pad(mask, (0, 3)), target=target, label=label),
    )
    assert same == words
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-4)


def test_pairs_are_marked_as_the_teacher_marks_them(match, text):
    """As in Firefox's models: sentences end in 0, and the token after the last one begins them and pads."""
    made, _ = task(match, text, 6, 2)
    ids = {"bos_id": 9000, "eos_id": 0, "pad_id": 9000}
    data = ParallelData(
        [("A house.", "Uma casa."), ("The old man is here.", "O velho está aqui.")],
        made.source,
        made.target,
        99,
        ids=ids,
    )
    batch = data.batch([0, 1])
    for row, (source, target) in enumerate(data.items):
        assert source[-1] == 0 and batch.source[row].tolist() == source + [9000] * (batch.source.shape[1] - len(source))
        rest = [9000] * (batch.target.shape[1] - len(target) - 1)
        assert batch.target[row].tolist() == [9000, *target, *rest]
        assert batch.label[row].tolist() == [*target, 0, *rest]
    assert batch.source_mask.sum().item() == sum(len(source) for source, _ in data.items)


@pytest.mark.parametrize(
    ("teacher", "change", "said"),
    [
        ("de-en", {}, "no transformer with"),
        ("en-pt", {"model": {"architecture": "transformer", "hidden_dim": 128}}, "table model"),
        ("en-pt", {"model": {"encoder_layers": 6}}, "table model"),
        ("en-pt", {"vocabulary": VocabularyOptions(size=8192)}, "the vocabulary is the teacher's"),
        ("en-pt", {"data": DataOptions(("a",), ("b",), ("c",), ("d",))}, "tab-separated"),
        ("en-pt", {"train": TrainOptions(max_steps=1)}, "leave out: label_smoothing"),
    ],
)
def test_what_it_cannot_do_is_named(match, text, teacher, change, said):
    path = text / "recipe.toml"
    path.write_text(RECIPE.format(6, 2), encoding="utf-8")
    recipe = read_recipe(path, text)
    match.check(TEACHER, recipe)
    with pytest.raises(SystemExit, match=said):
        match.check(ROOT / "models" / teacher, replace(recipe, **change))


def test_each_layer_of_a_student_learns_from_one_of_its_teacher(match):
    teacher = read_config(TEACHER)
    student = replace(teacher, encoder_layers=3, decoder_layers=1)
    pairs = {
        "encoder.0.ffn.norm": "encoder.1.ffn.norm",
        "encoder.1.attention.norm": "encoder.3.attention.norm",
        "encoder.2.ffn.norm": "encoder.5.ffn.norm",
        "decoder.0.cross.norm": "decoder.1.cross.norm",
    }
    assert {name: match.counterpart(name, student, teacher) for name in pairs} == pairs
    assert match.counterpart("encoder.4.ffn.norm", teacher, teacher) == "encoder.4.ffn.norm"


def test_a_student_with_fewer_layers_learns_and_translates(match, text, tmp_path, monkeypatch):
    recipe = tmp_path / "small.toml"
    recipe.write_text(RECIPE.format(2, 1), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["match.py", str(TEACHER), str(recipe), str(text), str(tmp_path / "run")])
    monkeypatch.setitem(TASKS, "translation", TASKS["translation"])
    monkeypatch.setattr("sharpbeam.train.loop.measure_and_fit", lambda *_, **__: [])  # not of the script, and slow
    match.main()
    lines = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    losses = [line["loss"] for line in lines if "loss" in line]
    assert len(losses) == 4 and losses[-1] < losses[0] / 2
    best = tmp_path / "run/best"
    config = read_config(best)
    assert (config.encoder_layers, config.decoder_layers, config.hidden_dim) == (2, 1, 256)
    assert "recipes/match.py" in (best / "README.md").read_text(encoding="utf-8")
    assert Translator(best).translate(SOURCES[:1])[0].tokens
