"""`sharpbeam train`: a recipe in, a model folder out."""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING
from pathlib import Path

from sharpbeam.cli.command import verb
from sharpbeam.cli.fit_progress import shown_progress
from sharpbeam.cli.flags import argument
from sharpbeam.errors import needs_extra
from sharpbeam.options.schema import option


@verb()
def train(
    recipe: Path = argument("A recipe (TOML): text, vocabulary, model and optimization."),
    *,
    data: Path | None = option(
        None, "Folder of the recipe's text. Default: the folder of the recipe.", metavar="FOLDER"
    ),
    output: Path = option(MISSING, "Folder of the run: checkpoint, metrics, best model.", short="-o", metavar="FOLDER"),
    max_steps: int | None = option(None, "Optimizer steps, instead of the recipe's train.max_steps."),
) -> None:
    """Train a model from a recipe.

    OUTPUT/best is the best model so far, from the first validation on; figures are in OUTPUT/metrics.jsonl. A run that
    was stopped, by Ctrl-C or by a kill, resumes from its last checkpoint when the same command is given again.
    Precision and threads that the recipe does not set are the fastest on this machine. At the end the best model gets
    its preview, as `convert` fits it, where that takes seconds. Needs PyTorch: `pip install 'sharpbeam[train]'`.

    Examples:

    * `sharpbeam train recipes/de-en.toml --data CORPORA --output runs/de-en`
    * `echo "Guten Morgen." | sharpbeam translate runs/de-en/best`
    """
    with needs_extra("sharpbeam train", "train"):
        from sharpbeam.train.loop import train_model
        from sharpbeam.train.recipe import read_recipe
    plan = read_recipe(recipe, data)
    if max_steps is not None:
        plan = dataclasses.replace(plan, train=dataclasses.replace(plan.train, max_steps=max_steps))
    with shown_progress() as progress:
        for line in train_model(plan, recipe.parent, output, progress):
            print(line)
