"""Recipes: what is wrong is said by name, before anything is trained."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from sharpbeam.errors import InputError, OptionError  # noqa: E402
from sharpbeam.train import machine  # noqa: E402
from sharpbeam.train.loop import Trainer  # noqa: E402
from sharpbeam.train.recipe import read_recipe  # noqa: E402
from sharpbeam.train.report import Metrics  # noqa: E402

GOOD = """
name = "toy"
[data]
train = ["train.tsv"]
valid = ["valid.tsv"]
[vocabulary]
size = 24
[model]
architecture = "recurrent"
embedding_dim = 16
hidden_dim = 16
[train]
max_steps = 10
learning_rate = 1
"""


@pytest.fixture
def path(toy: Path) -> Path:
    file = toy / "toy.toml"
    file.write_text(GOOD)
    return file


def test_a_good_recipe_is_read_and_an_integer_stands_for_a_float(path):
    recipe = read_recipe(path)
    assert (recipe.name, recipe.data.train, recipe.vocabulary.size) == ("toy", ("train.tsv",), 24)
    assert recipe.train.learning_rate == 1.0


def test_every_shipped_recipe_is_valid():
    recipes = sorted((Path(__file__).parents[3] / "recipes").glob("*.toml"))
    assert recipes
    for file in recipes:
        assert read_recipe(file).name == file.stem


def test_the_text_is_found_where_data_says(path, tmp_path, toy):
    away = tmp_path / "away"
    away.mkdir()
    moved = path.rename(away / "toy.toml")
    with pytest.raises(InputError, match=r"train.tsv is not there.*give the folder that it is in with --data"):
        Trainer(read_recipe(moved), away, tmp_path / "run")
    recipe = read_recipe(moved, toy)
    assert recipe.data.train == (str(toy / "train.tsv"),)
    Trainer(recipe, away, tmp_path / "run")


def test_precision_and_threads_are_the_fastest_here(path, monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "usable_cores", lambda: 2)
    steps: list[int] = []

    def step(task, model, batch):
        steps.append(torch.get_num_threads())
        return {1: 2.0, 2: 1.0}[steps[-1]]

    monkeypatch.setattr(machine, "_step", step)
    for flags, precision in (("fma avx512_bf16", "bfloat16"), ("fma avx2", "float32")):
        info = tmp_path / "cpuinfo"
        info.write_text(f"processor : 0\nflags\t\t: {flags}\n")
        monkeypatch.setattr(machine, "CPU_INFO", info)
        trainer = Trainer(read_recipe(path), path.parent, tmp_path / precision)
        assert (trainer.options.precision, trainer.progress.threads) == (precision, 2)
        assert steps == [1, 1, 1, 2, 2, 2] and torch.get_num_threads() == 2
        steps.clear()


def test_a_run_resumes_with_its_own_precision_and_threads(path, monkeypatch, tmp_path, capsys):
    """Also where the machine has changed: the losses are those of the run that was not interrupted."""
    monkeypatch.setattr(machine, "_flags", lambda: {"bf16"})
    path.write_text(GOOD.replace("max_steps = 10", "max_steps = 2"))
    Trainer(read_recipe(path), path.parent, tmp_path / "run").run()
    assert "Training with bfloat16 matmuls on 1 thread(s)" in capsys.readouterr().err
    monkeypatch.setattr(machine, "_flags", set)
    path.write_text(GOOD.replace("max_steps = 10", "max_steps = 3"))
    trainer = Trainer(read_recipe(path), path.parent, tmp_path / "run")
    assert (trainer.options.precision, trainer.progress.threads, trainer.progress.step) == ("bfloat16", 1, 2)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_steps", "max_step", "toy.toml: train: unknown option 'max_step'. Did you mean 'max_steps'"),
        ("[data]", "[dta]", "unknown option 'dta'. Did you mean 'data'"),
        ("max_steps = 10", "", "option 'max_steps' is missing"),
        ("max_steps = 10", "max_steps = 10.5", "max_steps is 10.5; it must be a whole number"),
        ("max_steps = 10", "max_steps = true", "max_steps is True; it must be a whole number"),
        ("max_steps = 10", "max_steps = 0", "train.max_steps is 0; it must be 1 or more"),
        ('["train.tsv"]', '"train.tsv"', "train is 'train.tsv'; it must be a list"),
        ('["train.tsv"]', "[]", "data.train is"),
        ("learning_rate = 1", 'device = "tpu"', "device is 'tpu'; it must be cpu or cuda"),
        ("[vocabulary]\nsize", "vocabulary", "vocabulary is 24; it must be a table"),
        ('"recurrent"', '"perceptron"', "architecture is 'perceptron'; it must be one of recurrent, lstm-attention"),
    ],
)
def test_wrong_options_are_named(path, old, new, message):
    text = GOOD.replace(old, new, 1)
    if "vocabulary = 24" in text:  # a bare key belongs before the first table
        text = "vocabulary = 24\n" + text.replace("vocabulary = 24", "")
    path.write_text(text)
    with pytest.raises(OptionError) as caught:
        read_recipe(path)
    assert message in str(caught.value)


def test_unreadable_recipes_are_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read the recipe .*none.toml"):
        read_recipe(tmp_path / "none.toml")
    (tmp_path / "a.toml").write_text("name = ")
    with pytest.raises(InputError, match=r"a.toml is not TOML: "):
        read_recipe(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"b.toml is not UTF-8"):
        read_recipe(tmp_path / "b.toml")


def test_wrong_model_facts_and_missing_text_are_named(path):
    path.write_text(GOOD.replace("hidden_dim", "hiden_dim"))
    with pytest.raises(OptionError, match=r"recipe: model: unknown option 'hiden_dim'. Did you mean 'hidden_dim'"):
        Trainer(read_recipe(path), path.parent, path.parent / "out")
    path.write_text(GOOD.replace("embedding_dim = 16", "embedding_dim = 0"))
    with pytest.raises(OptionError, match="recipe: model: embedding_dim is 0; it must be 1 or more"):
        read_recipe(path)
    path.write_text(GOOD.replace("embedding_dim = 16", "source_vocab_size = 900"))
    with pytest.raises(OptionError, match=r"model.source_vocab_size is 900; leave it out: it is that of the vocab"):
        read_recipe(path)
    for wrong in ("seed = -1", "seed = 9223372036854775807", "threads = 100000"):
        path.write_text(GOOD.replace("max_steps", f"{wrong}\nmax_steps"))
        with pytest.raises(OptionError, match=f"train.{wrong.split()[0]} is {wrong.split()[2]}; it must be"):
            read_recipe(path)
    for wrong in ("en-de-en", "en-", "en - de", "en-en"):
        path.write_text(GOOD.replace("[data]", f'[data]\nlanguages = ["{wrong}"]'))
        with pytest.raises(OptionError, match=r"two different codes in each entry, as 'en-de'"):
            read_recipe(path)
    path.write_text(GOOD)
    Trainer(read_recipe(path), path.parent, path.parent / "out")
    path.write_text(GOOD.replace("size = 24", "size = 4000"))
    with pytest.raises(
        InputError, match=r"^vocabulary.size is 4000; the text for source.spm allows at most 30\. Lower"
    ):
        Trainer(read_recipe(path), path.parent, path.parent / "new")
    assert not list((path.parent / "new").glob("*.spm*"))
    (path.parent / "out/checkpoint.safetensors").touch()  # it would resume
    with pytest.raises(OptionError, match=r"vocabulary.size is 4000, but .*source.spm of .* has 24 pieces; set it to"):
        Trainer(read_recipe(path), path.parent, path.parent / "out")
    path.write_text(GOOD.replace("valid.tsv", "valid.txt"))
    with pytest.raises(InputError, match=r"valid.txt is not there"):
        Trainer(read_recipe(path), path.parent, path.parent / "out")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_named(path):
    path.write_text(GOOD + 'device = "cuda"\n')
    with pytest.raises(OptionError, match=r"train.device is 'cuda', but PyTorch finds no CUDA device"):
        Trainer(read_recipe(path), path.parent, path.parent / "out")


def test_lines_of_figures_that_are_damaged_are_left_out(tmp_path):
    (tmp_path / "metrics.jsonl").write_bytes(
        b'{"step": 1, "loss": 2.0}\ngarbage\n{"step": 2\n\xff\n{"step": 3, "loss": 1.0}\n'
    )
    Metrics(tmp_path, 2)
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 1, "loss": 2.0}\n'
