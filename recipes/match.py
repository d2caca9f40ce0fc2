"""A student that learns what its teacher computes: probabilities, embeddings, and what each sublayer gives.

    python recipes/match.py firefox:en-pt recipes/en-pt-matched.toml runs/en-pt runs/en-pt/en-pt-matched

The folder of text has train.tsv and valid.tsv, sources and answers of the teacher, as `sharpbeam distil` writes. The
student begins with random weights. It has the vocabulary and the shape of the teacher, but may have other numbers of
layers and feed-forward widths. It reads the answers, and learns on each batch the embeddings of the tokens and the
vectors that the teacher's sublayers give, by squared errors, and at an eighth of the positions the teacher's
distribution (Hinton et al. 2015). Of n layers, layer i learns from layer i k / n, rounded up, of the teacher's k. This
is after Jiao et al. (2020), who compare whole layers and attention matrices, and map between widths. A student of the
very shape of its teacher could become a copy of it: docs/lab/training.md says how near it came.

In metrics.jsonl `nll` is the divergence from the teacher's distributions, and `accuracy` the share of equal first
guesses. Stopped, a run resumes when the same command is given again.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import asdict, replace
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div, linear, log_softmax

from sharpbeam import Translator
from sharpbeam.convert.firefox import check_facts
from sharpbeam.errors import SharpbeamError
from sharpbeam.models.registry import find_architecture
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.models.transformer.module import TransformerModule
from sharpbeam.options.train import Recipe, VocabularyOptions
from sharpbeam.storage.atomic import write_text
from sharpbeam.storage.model_folder import read_config, read_tensors
from sharpbeam.text.vocabulary import read_vocabularies
from sharpbeam.train.loop import TASKS, train_model
from sharpbeam.train.recipe import read_recipe
from sharpbeam.train.translation import Batch, ParallelData, TranslationTask, read_pairs

SHARE = 0.125  # of the positions: those whose distributions are compared
WEIGHT = 0.1  # of the divergence; the error of the embeddings, and of each sublayer, counts 1
SHAPE = {
    "norm": "post", "norm_kind": "layer", "embedding_norm": False, "encoder_final_norm": False,
    "decoder_final_norm": False, "shared_embedding": True, "experts": 0, "languages": {}, "source_tag": "none",
    "source_eos": True, "source_begin": (), "target_begin": (), "target_tag": False,
}  # fmt: skip
OWN = {"architecture", "encoder_layers", "decoder_layers", "encoder_ffn_dim", "decoder_ffn_dim"}  # of a student
LACKING = ("start", "self_normalization", "label_smoothing", "output_samples")  # options of train
VOCABULARIES = [f"{side}.{end}" for side in ("source", "target") for end in ("spm", "pieces.json", "vocab.json")]
Vectors = dict[str, Tensor]  # by the name of the norm that ends a sublayer


def watch(module: nn.Module) -> Vectors:
    """The vectors that the norms of `module` give, filled by each forward pass."""
    given: Vectors = {}
    for name, part in module.named_modules():
        if isinstance(part, nn.LayerNorm):
            part.register_forward_hook(lambda _, __, out, name=name: given.__setitem__(name, out))
    return given


def counterpart(name: str, student: TransformerConfig, teacher: TransformerConfig) -> str:
    """The norm of the teacher from which the norm `name` of the student learns."""

    def layer(match: re.Match[str]) -> str:
        side, number = match[1], int(match[2]) + 1
        has, shall = (getattr(config, f"{side}_layers") for config in (teacher, student))
        return f"{side}.{-(-number * has // shall) - 1}."

    return re.sub(r"^(encoder|decoder)\.(\d+)\.", layer, name)


def error(own: Tensor, given: Tensor) -> Tensor:
    """Squared error of vectors [N, D], as a share of their squared distance from their mean."""
    given = given.float()
    return (own.float() - given).square().sum() / (given - given.mean(0)).square().sum()


def check(teacher: Path, recipe: Recipe) -> None:
    """Exit with a message for a teacher, or for a recipe, that this script cannot do."""
    config: Any = read_config(teacher)
    if not isinstance(config, TransformerConfig) or any(getattr(config, n) != v for n, v in SHAPE.items()):
        raise SystemExit(f"{teacher} is no transformer with {SHAPE}")
    if recipe.model.get("architecture") != "transformer" or not recipe.model.keys() <= OWN:
        raise SystemExit(f"the recipe's table model is {recipe.model}; it may have {sorted(OWN)}: a transformer's")
    if recipe.vocabulary != VocabularyOptions():
        raise SystemExit("the recipe has a table vocabulary; leave it out: the vocabulary is the teacher's")
    if recipe.data.train_target or recipe.data.valid_target or recipe.data.languages:
        raise SystemExit("the recipe's table data may name tab-separated files of one direction alone")
    if wrong := [name for name in LACKING if getattr(recipe.train, name)]:
        raise SystemExit(f"set to 0 in the recipe's table train, or leave out: {', '.join(wrong)}")


class MatchingTask(TranslationTask):
    """Training on a teacher's own vectors and distributions."""

    def __init__(self, teacher: Path, recipe: Recipe, base: Path, output: Path) -> None:
        """Read the text, the teacher and its vocabulary."""
        self.options, self.device = recipe.train, torch.device(recipe.train.device)
        self.architecture = find_architecture("transformer")
        before: Any = read_config(teacher)
        self.config = replace(before, **{k: v for k, v in recipe.model.items() if k != "architecture"})
        if self.options.exportable:
            tokens, start = self.config.target_vocab_size, self.config.bos_id
            check_facts(self.config, tokens - (start == tokens - 1))
        self.teacher = TransformerModule(before)
        self.teacher.load_state_dict({n: torch.tensor(v) for n, v in read_tensors(teacher, before).items()})
        self.teacher.requires_grad_(False).eval().to(self.device)
        self.theirs, self.own = watch(self.teacher), Vectors()
        self.source, self.target = read_vocabularies(teacher)
        self.vocabularies = {n: (teacher / n).read_bytes() for n in VOCABULARIES if (teacher / n).is_file()}
        self.longest = self.config.max_positions or 1 << 20
        pairs, _ = read_pairs(recipe.data.train, (), recipe.data, base)
        self.valid_pairs, _ = read_pairs(recipe.data.valid, (), recipe.data, base)
        ids, longest = asdict(self.config), min(recipe.data.max_length, self.longest)
        self.train_data = ParallelData(pairs, self.source, self.target, longest, ids=ids)
        self.valid_data = ParallelData(self.valid_pairs, self.source, self.target, self.longest, ids=ids)

    def module(self) -> Any:
        """A fresh student."""
        module = super().module()
        self.own = watch(module)
        return module

    def loss(self, model: Any, batch: Batch) -> tuple[Tensor, int]:
        """Times the number of target tokens: loss, divergence, 0, equal first guesses; and that number."""
        real = (batch.label != self.train_data.pad).to(self.device)
        there = torch.ones_like(batch.source, dtype=torch.bool) if batch.source_mask is None else batch.source_mask
        there, source, label = there.to(self.device), batch.source.to(self.device), batch.label.to(self.device)
        given = source, None if batch.source_mask is None else there, batch.target.to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.options.precision == "bfloat16"):
            theirs, ours = self.teacher(*given)[real], model(*given)[real]
            count = len(ours)
            drawn = torch.randperm(count, device=self.device)[: ceil(SHARE * count)]
            logits = linear(theirs[drawn], *self.teacher.output()), linear(ours[drawn], *model.output())
        right, own = (log_softmax(one.float(), dim=-1) for one in logits)
        divergence = kl_div(own, right, reduction="batchmean", log_target=True)
        equal = (own.argmax(1) == right.argmax(1)).float().mean()
        tokens = torch.unique(torch.cat([source[there], label[real]]))
        errors = error(model.target_embedding[tokens], self.teacher.target_embedding[tokens])
        for name, vectors in self.own.items():
            mask = real if name.startswith("decoder") else there
            aim = self.theirs[counterpart(name, self.config, self.teacher.config)]
            errors = errors + error(vectors[mask], aim[mask])
        loss = WEIGHT * divergence + errors
        return count * torch.stack([loss, divergence.detach(), torch.zeros_like(loss), equal]), count


def main() -> None:
    """Read the command line and train; faults end with a message."""
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument("teacher", help="a model folder, or a name such as firefox:en-pt")
    flags.add_argument("recipe", type=Path, help="of its table model only what differs from the teacher counts")
    flags.add_argument("text", type=Path, help="the folder of the recipe's files of text")
    flags.add_argument("output", type=Path)
    try:
        train(flags.parse_args())
    except SharpbeamError as fault:
        raise SystemExit(str(fault)) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def train(given: argparse.Namespace) -> None:
    """Train the student that the command line asks for."""
    teacher, recipe = Translator(given.teacher).loaded.folder, read_recipe(given.recipe, given.text)
    check(teacher, recipe)
    TASKS["translation"] = partial(MatchingTask, teacher)
    train_model(recipe, given.recipe.parent, given.output)
    card = given.output / "best/README.md"
    made = f"`recipes/match.py` with the teacher {given.teacher}"
    write_text(card, card.read_text(encoding="utf-8").replace("`sharpbeam train`", made))


if __name__ == "__main__":
    main()
