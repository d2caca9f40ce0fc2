"""A toy language pair small enough to train on in a second: the target says the source's words backwards."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from sharpbeam.options.train import DataOptions, Recipe, TrainOptions, VocabularyOptions  # noqa: E402
from sharpbeam.train.loop import Trainer  # noqa: E402

WORDS = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu")
TIMES = ("tokens_per_second", "seconds")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One PyTorch thread, and the process-wide settings of a training run undone afterwards."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_flush_denormal(False)
    torch.set_num_threads(threads)


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A folder with train.tsv and valid.tsv of the toy language."""
    choose = random.Random(5)
    for name, size in (("train", 300), ("valid", 20)):
        lines = []
        for _ in range(size):
            words = [choose.choice(WORDS) for _ in range(choose.randint(1, 9))]
            lines.append(" ".join(words) + "\t" + " ".join(reversed(words)))
        (tmp_path / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


@pytest.fixture
def recipe(toy: Path) -> Recipe:
    """A recipe for the toy language: about 10,000 parameters, dropout on, a checkpoint every 7 steps."""
    return Recipe(
        name="toy",
        data=DataOptions(train=("train.tsv",), valid=("valid.tsv",)),
        vocabulary=VocabularyOptions(size=24),
        model={
            "embedding_dim": 16,
            "encoder_dim": 12,
            "decoder_dim": 16,
            "attention_dim": 12,
            "hidden_dim": 16,
            "shared_embedding": True,
            "tied_output": True,
        },
        train=TrainOptions(
            precision="float32",
            max_steps=60,
            batch_tokens=80,
            warmup_steps=10,
            learning_rate=1e-2,
            threads=1,
            log_every=3,
            validate_every=20,
            checkpoint_every=7,
        ),
    )


@pytest.fixture
def train(toy: Path) -> Callable[..., list[dict[str, Any]]]:
    """Run a recipe, with some training options changed, into a folder of `toy`; returns the lines of metrics."""

    def run(recipe: Recipe, output: str, **options: Any) -> list[dict[str, Any]]:
        changed = dataclasses.replace(recipe, train=dataclasses.replace(recipe.train, **options))
        Trainer(changed, toy, toy / output).run()
        return read_metrics(toy / output)

    return run


@pytest.fixture
def losses() -> Callable[[Path], list[dict[str, Any]]]:
    """Read the metrics of a run's folder, without the figures that hold times."""
    return lambda folder: [{k: v for k, v in line.items() if k not in TIMES} for line in read_metrics(folder)]


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics."""
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
