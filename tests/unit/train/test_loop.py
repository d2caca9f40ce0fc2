"""The training loop: schedules, stopping, and resuming after every kind of end with the same losses."""

from __future__ import annotations

import dataclasses
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from safetensors import safe_open  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

from sharpbeam.errors import ModelError, OptionError, OutputError, SharpbeamError  # noqa: E402
from sharpbeam.options.train import TrainOptions  # noqa: E402
from sharpbeam.storage.model_folder import read_config, read_tensors  # noqa: E402
from sharpbeam.train.checkpoint import Progress  # noqa: E402
from sharpbeam.train.loop import Trainer, learning_rate, train_model  # noqa: E402

STEPS = 150
CHILD = """
import sys
from pathlib import Path
from sharpbeam.train.loop import Trainer
from sharpbeam.train.recipe import read_recipe
recipe = Path(sys.argv[1])
Trainer(read_recipe(recipe), recipe.parent, Path(sys.argv[2])).run()
"""


def test_learning_rate_schedules():
    def rates(schedule, steps, cooldown=0):
        options = TrainOptions(
            max_steps=110, warmup_steps=10, learning_rate=1.0, schedule=schedule, cooldown_steps=cooldown
        )
        return [learning_rate(options, step) for step in steps]

    assert rates("linear", [1, 5, 10, 60, 110, 111]) == pytest.approx([0.1, 0.5, 1, 0.5, 0, 0])
    assert rates("inverse_sqrt", [5, 10, 40]) == pytest.approx([0.5, 1, 0.5])
    assert rates("constant", [1, 10, 110]) == pytest.approx([0.1, 1, 1])
    assert rates("constant", [10, 90, 91, 101, 110], 20) == pytest.approx([1, 1, 1, 0.5, 0.05])
    assert learning_rate(TrainOptions(max_steps=10, warmup_steps=0, schedule="constant"), 1) == 1e-3


def test_a_run_learns_and_leaves_metrics_and_a_model(recipe, train, toy):
    metrics = train(recipe, "out", max_steps=120, validate_every=60, dropout=0.0)
    lines = [m for m in metrics if "loss" in m]
    assert [m["step"] for m in lines] == list(range(3, 121, 3))
    assert lines[-1]["nll"] < 0.7 * lines[0]["nll"]
    assert lines[-1]["accuracy"] > lines[0]["accuracy"]
    assert [m["step"] for m in metrics if "bleu" in m] == [60, 120]
    config = read_config(toy / "out/best")
    assert read_tensors(toy / "out/best", config)["target_embedding"].shape == (24, 16)
    assert "validation BLEU" in (toy / "out/best/README.md").read_text()


def test_a_cool_down_ends_with_the_weights_of_its_last_steps(recipe, train, toy):
    train(recipe, "out", max_steps=6, average_decay=0.999)
    train(recipe, "out", max_steps=12, cooldown_steps=5, average_decay=0.999)
    tensors = load_file(toy / "out/checkpoint.safetensors")
    names = [name.removeprefix("model.") for name in tensors if name.startswith("model.")]
    assert names
    for name in names:
        assert torch.equal(tensors[f"model.{name}"], tensors[f"average.{name}"])


def test_a_finished_run_does_nothing_more(recipe, train, toy, losses):
    train(recipe, "out")
    before = {path: path.read_bytes() for path in (toy / "out").rglob("*") if path.is_file()}
    train(recipe, "out")
    assert {path: path.read_bytes() for path in (toy / "out").rglob("*") if path.is_file()} == before


def test_of_equal_bleu_the_model_with_fewer_nats_is_the_better_one(recipe, toy):
    task, progress = Trainer(recipe, toy, toy / "run").task, Progress()
    figures = [(0.0, 3.0), (0.0, 3.1), (0.0, 2.9), (1.0, 9.0), (0.5, 0.1), (1.0, 9.0), (1.0, 8.0)]
    better = [task.better({"bleu": bleu, "valid_nll": nll}, progress) for bleu, nll in figures]
    assert better == [True, False, True, True, False, False, True]


def test_a_finished_model_keeps_what_was_fitted_to_it(recipe, toy):
    options = dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, max_steps=3, validate_every=3))
    assert train_model(options, toy, toy / "out")
    (toy / "out/best/precision.json").write_text("mine")
    assert train_model(options, toy, toy / "out") == []
    assert (toy / "out/best/precision.json").read_text() == "mine"


def test_patience_stops_and_stays_stopped(recipe, train):
    still = {"learning_rate": 1e-12, "validate_every": 5, "patience": 2, "average_decay": 0.0}
    metrics = train(recipe, "out", **still)
    assert [m["step"] for m in metrics if "bleu" in m] == [5, 10, 15]  # the first is the best
    assert train(recipe, "out", **still) == metrics


def test_self_normalization_lowers_the_mean_square_of_log_z(recipe, train):
    free, held = (
        train(recipe, f"alpha{alpha}", self_normalization=alpha, max_steps=80, label_smoothing=0.0)
        for alpha in (0.0, 0.5)
    )
    first, last = (
        [next(m["mean_square_log_z"] for m in every if "loss" in m) for every in runs]
        for runs in ((free, held), (free[::-1], held[::-1]))
    )
    assert first[1] < 0.2 * first[0]
    assert last[1] < 0.1 * last[0]


def write_recipe(recipe, toy: Path) -> Path:
    def value(x):
        return json.dumps(x)  # what stands here reads the same in TOML

    tables = {"data": recipe.data, "vocabulary": recipe.vocabulary, "train": recipe.train}
    text = f"name = {value(recipe.name)}\n[model]\n" + "".join(f"{k} = {value(v)}\n" for k, v in recipe.model.items())
    for name, table in tables.items():
        text += f"[{name}]\n" + "".join(f"{k} = {value(v)}\n" for k, v in dataclasses.asdict(table).items())
    path = toy / "toy.toml"
    path.write_text(text)
    return path


def run_and_signal(path: Path, output: Path, number: signal.Signals, after: int) -> subprocess.CompletedProcess[str]:
    """Train in another process until the metrics reach step `after`, then send it a signal."""
    command = [sys.executable, "-c", CHILD, str(path), str(output)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        for line in child.stderr:
            if line.startswith("{") and json.loads(line)["step"] >= after:
                child.send_signal(number)
                break
        rest = child.stderr.read()
        return subprocess.CompletedProcess(command, child.wait(timeout=60), stderr=rest)


def test_killed_and_interrupted_runs_go_on_with_the_same_losses(recipe, toy, train, losses):
    recipe = dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, max_steps=STEPS, validate_every=70))
    path = write_recipe(recipe, toy)
    killed = run_and_signal(path, toy / "out", signal.SIGKILL, 20)
    assert killed.returncode == -signal.SIGKILL
    stopped = run_and_signal(path, toy / "out", signal.SIGINT, 60)
    assert stopped.returncode in (130, -signal.SIGINT)
    assert "the same command resumes from there" in stopped.stderr
    assert 60 <= losses(toy / "out")[-1]["step"] < STEPS  # so both ended before their time
    train(recipe, "out")
    train(recipe, "whole")
    assert losses(toy / "out") == losses(toy / "whole")
    models = [(toy / name / "best/model.safetensors").read_bytes() for name in ("out", "whole")]
    assert models[0] == models[1]


def test_a_full_disk_keeps_the_old_checkpoint(recipe, toy, train, losses):
    train(recipe, "out", max_steps=7, schedule="constant")
    checkpoint = toy / "out/checkpoint.safetensors"
    before = checkpoint.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, hard))  # no file may grow beyond this
    try:
        with pytest.raises(SharpbeamError, match=r"stopped at step 14.*Free space"):
            train(recipe, "out", max_steps=20, schedule="constant")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert checkpoint.read_bytes() == before
    assert not list((toy / "out").glob(".*"))
    train(recipe, "out", max_steps=20, schedule="constant")
    for steps in (7, 20):  # the same two runs, undisturbed
        train(recipe, "whole", max_steps=steps, schedule="constant")
    assert losses(toy / "out")[-1] == losses(toy / "whole")[-1]


@pytest.mark.parametrize("damage", [lambda b: b[: len(b) // 2], lambda b: b"x" * 100, lambda b: b""])
def test_a_broken_checkpoint_is_named(recipe, toy, train, damage):
    train(recipe, "out", max_steps=7)
    checkpoint = toy / "out/checkpoint.safetensors"
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))
    with pytest.raises(ModelError, match=r"checkpoint.safetensors is no checkpoint of this recipe"):
        Trainer(recipe, toy, toy / "out")


def test_a_checkpoint_of_another_recipe_is_named(recipe, toy, train):
    train(recipe, "out", max_steps=7)
    wider = dataclasses.replace(recipe, model=recipe.model | {"decoder_dim": 20})
    with pytest.raises(ModelError, match="is no checkpoint of this recipe"):
        Trainer(wider, toy, toy / "out")


def test_each_changed_setting_is_named_and_a_free_one_is_not(recipe, toy, train):
    train(recipe, "out", max_steps=7)
    with pytest.raises(ModelError, match=r"train.batch_tokens was 80 and is 70; train.seed was 1 and is 2\); start in"):
        train(recipe, "out", batch_tokens=70, seed=2)
    train(recipe, "out", max_steps=8, log_every=2, checkpoint_every=3, validate_every=4, patience=9)
    with (toy / "train.tsv").open("a") as out:
        out.write("ba ce\tce ba\n")
    with pytest.raises(ModelError, match=r"the text of data.train is another"):
        train(recipe, "out")


def test_a_checkpoint_without_settings_is_refused(recipe, toy, train):
    train(recipe, "out", max_steps=7)
    path = toy / "out/checkpoint.safetensors"
    with safe_open(path, framework="pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        progress = file.metadata()["progress"]
    save_file(tensors, path, metadata={"progress": progress})
    with pytest.raises(ModelError, match="settings"):
        Trainer(recipe, toy, toy / "out")


def test_a_try_without_a_checkpoint_leaves_no_vocabulary_to_the_next(recipe, toy):
    with pytest.raises(ModelError, match="embedding_dim is 0"):
        Trainer(dataclasses.replace(recipe, model=recipe.model | {"embedding_dim": 0}), toy, toy / "out")
    before = (toy / "out/source.spm").read_bytes()
    (toy / "train.tsv").write_text((toy / "train.tsv").read_text().replace("ba", "xy"))
    source = Trainer(recipe, toy, toy / "out").task.source
    assert source.serialized == (toy / "out/source.spm").read_bytes() != before
    assert (toy / "out/source.spm.old").read_bytes() == before  # it may be the user's own
    assert 0 not in source.encode("xy")
    (toy / "out/config.json").touch()
    with pytest.raises(OptionError, match=r"--output is .*/out'; it must be a folder of training runs, not of a model"):
        Trainer(recipe, toy, toy / "out")
    with pytest.raises(OutputError, match=r"train.tsv is no folder; give another --output"):
        Trainer(recipe, toy, toy / "train.tsv")


def test_pairs_that_are_left_out_are_counted(recipe, toy, capsys):
    Trainer(recipe, toy, toy / "all")
    assert "left out" not in capsys.readouterr().err
    for name in ("train", "valid"):
        with (toy / f"{name}.tsv").open("a") as out:
            out.write(f"ba{' ce' * 99}\tba\n \tba\n")
    Trainer(recipe, toy, toy / "out")
    lines = capsys.readouterr().err
    assert "data.train: 300 pairs are kept; 2 are left out, too long or empty." in lines
    assert "data.valid: 21 pairs are kept; 1 are left out, too long or empty." in lines  # it has no max_length


def test_two_runs_in_one_folder_are_refused(recipe, toy):
    recipe = dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, max_steps=3))
    first = Trainer(recipe, toy, toy / "out")
    with pytest.raises(SharpbeamError, match=r"another run is training in .*out; wait for its end"):
        Trainer(recipe, toy, toy / "out")
    first.run()
    Trainer(recipe, toy, toy / "out")


def test_a_run_that_diverges_stops_with_its_last_good_checkpoint(recipe, toy, train):
    train(recipe, "out", max_steps=7)
    before = (toy / "out/checkpoint.safetensors").read_bytes()
    trainer = Trainer(recipe, toy, toy / "out")
    with torch.no_grad():
        next(trainer.model.parameters()).fill_(float("nan"))
    with pytest.raises(SharpbeamError, match=r"diverged at step 8: the loss is nan .* Lower train.learning_rate"):
        trainer.run()
    assert (toy / "out/checkpoint.safetensors").read_bytes() == before


@pytest.mark.parametrize("rate", [1e30, 1e8, float("inf")])
def test_a_rate_that_is_too_high_leaves_no_model_and_no_nan(recipe, toy, train, rate):
    with pytest.raises(SharpbeamError, match="training diverged at step"):
        train(recipe, "out", learning_rate=rate, warmup_steps=0, log_every=1, max_steps=3, validate_every=1)
    assert not (toy / "out/best").exists() and not (toy / "out/checkpoint.safetensors").exists()
    assert "NaN" not in (toy / "out/metrics.jsonl").read_text()
