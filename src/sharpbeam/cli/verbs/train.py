"""`sharpbeam train`: a recipe in, a model folder out."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import typer

from sharpbeam.cli.new_model import measure_and_fit
from sharpbeam.errors import needs_extra


def train(
    recipe: Annotated[Path, typer.Argument(help="A recipe (TOML): text, vocabulary, model and optimization.")],
    *,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the recipe's text. Default: the folder of the recipe."),
    ] = None,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FOLDER", help="Folder of the run: checkpoint, metrics, best model."),
    ],
    max_steps: Annotated[
        int | None, typer.Option(help="Optimizer steps, instead of the recipe's train.max_steps.")
    ] = None,
) -> None:
    """Train a model from a recipe.

    OUTPUT/best is the best model so far, from the first validation on; figures are in OUTPUT/metrics.jsonl. A run that
    was stopped, by Ctrl-C or by a kill, resumes from its last checkpoint when the same command is given again.
    Precision and threads that the recipe does not set are the fastest on this machine. At the end the best model gets
    its preview, as `convert` fits it, where that takes seconds. Needs PyTorch: `pip install 'sharpbeam[train]'`.

    Examples:

    * `sharpbeam train recipes/de-en.toml --data CORPORA --output runs/de-en`
    * `sharpbeam train recipes/de-en.toml --data CORPORA --output runs/trial --max-steps 200`
    * `echo "Guten Morgen." | sharpbeam translate runs/de-en/best`
    """
    with needs_extra("sharpbeam train", "train"):
        from sharpbeam.train.loop import Trainer
        from sharpbeam.train.recipe import read_recipe
        from sharpbeam.train.translation import TranslationTask
    plan = read_recipe(recipe, data)
    if max_steps is not None:
        plan = dataclasses.replace(plan, train=dataclasses.replace(plan.train, max_steps=max_steps))
    trainer = Trainer(plan, recipe.parent, output)
    if trainer.progress.step:
        print(f"Resuming from the checkpoint of step {trainer.progress.step} in {output}.", file=sys.stderr)
    trainer.run()
    if (output / "best" / "config.json").is_file():
        task = trainer.task
        pairs = task.valid_pairs if isinstance(task, TranslationTask) else []
        pairs = [] if getattr(task.config, "languages", {}) else pairs
        measure_and_fit(output / "best", (), [source for source, _ in pairs])
