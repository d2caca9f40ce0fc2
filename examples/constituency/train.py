"""Train the parser on trees in brackets, one a line; prints the loss on held-out trees after each epoch.

python examples/constituency/train.py train.trees.gz dev.trees.gz --output runs/parser --vectors words.vec

Vectors of 100 numbers, as word2vec writes them in text, let the parser know words that no tree has.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import random
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from rich.progress import track
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from sharpbeam.text.lines import read_lines
from sharpbeam.types import Floats, Ids

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that it runs from anywhere

from examples.constituency.model import FORBIDDEN, LABELS, SHIFT, UNKNOWN, Inventory, Parser, State
from examples.constituency.trees import Tree, read_tree

BATCH_WORDS = 300
KEPT_WORDS = 25000  # of the vectors
SPREAD = 0.6  # standard deviation of the numbers of a word's vector at the beginning
FORGETFUL = 0.84  # a word is unknown in FORGETFUL / (FORGETFUL + its count) of the cases (Cross & Huang 2016)


@dataclass(frozen=True)
class Example:
    """A sentence [n], and what each of the T actions of its tree is chosen from."""

    source: Ids
    gold: Tensor  # [T] the right actions
    spans: Tensor  # [T, 4, 2] whose features decide, after the right actions before
    forbidden: Tensor  # [T, KINDS] what is added to the logits of each kind

    @staticmethod
    def of(source: Ids, actions: Sequence[int]) -> Example:
        """From the actions of a tree, the last of which, eos, is not learned."""
        states, words = [State()], len(source)
        for action in actions[:-2]:
            states.append(states[-1].after(action))
        possible = torch.tensor([state.possible(words) for state in states])
        spans = torch.tensor([state.spans(words) for state in states])
        return Example(source, torch.tensor(actions[:-1]), spans, torch.where(possible, 0.0, FORBIDDEN))


def read_trees(path: Path) -> list[Tree]:
    """The trees of a file, .gz or not."""
    return [read_tree(line) for line in read_lines(path)]


def read_vectors(path: Path) -> dict[str, list[float]]:
    """The first vectors of a file of word2vec's, after a line with two numbers; the most frequent words come first."""
    lines = itertools.islice(read_lines(path), 1, KEPT_WORDS + 1)
    return {word: [float(number) for number in rest] for word, *rest in map(str.split, lines)}


def batch_loss(parser: Parser, batch: Sequence[Example]) -> tuple[Tensor, int]:
    """Sum of the losses of all actions of a batch, each after the right ones before it, and their number."""
    memories = parser.encode([example.source for example in batch])
    begins = itertools.accumulate((len(memory) for memory in memories[:-1]), initial=0)
    gold, forbidden = (torch.cat([getattr(e, name) for e in batch]) for name in ("gold", "forbidden"))
    spans = torch.cat([example.spans + begin for example, begin in zip(batch, begins, strict=True)])
    labels = gold >= LABELS
    hidden = parser.dropout(parser.hidden(parser.features(torch.cat(memories), spans), labels))
    width = parser.hidden_width
    structure = parser.structure_output(hidden[~labels, :width]) + forbidden[~labels, 1:3]
    label = parser.label_output(hidden[labels, width:])
    label = torch.cat([label[:, :1] + forbidden[labels, 3:4], label[:, 1:]], 1)
    loss = F.cross_entropy(structure, gold[~labels] - SHIFT, reduction="sum")
    return loss + F.cross_entropy(label, gold[labels] - LABELS, reduction="sum"), len(gold)


def examples(inventory: Inventory, trees: Sequence[Tree]) -> list[Example]:
    """Sentences and their actions."""
    return [Example.of(inventory.encode(tree), inventory.action_ids(tree)) for tree in trees]


def batches(data: Sequence[Example], words: int, order: random.Random) -> list[list[Example]]:
    """Batches of sentences of like length, of so many words together, shuffled."""
    made: list[list[Example]] = [[]]
    for example in sorted(data, key=lambda e: (len(e.source), order.random())):
        if (len(made[-1]) + 1) * len(example.source) > words and made[-1]:
            made.append([])
        made[-1].append(example)
    order.shuffle(made)
    return made


def averaged(mine: Tensor, new: Tensor, steps: Tensor | int) -> Tensor:
    """The running average of a weight, over the last thousand steps or so."""
    return mine.lerp(new, max(0.001, 9 / (10 + int(steps))))


def begin(trees: Sequence[Tree], vectors: Mapping[str, list[float]]) -> tuple[Parser, Floats]:
    """A new parser of the words of `trees` and `vectors`, and how often each one is to be unknown."""
    inventory = Inventory.build(trees, vectors)
    parser = Parser(inventory)
    with torch.no_grad():
        parser.words.weight.mul_(SPREAD)
        if vectors:
            known = torch.tensor([vectors.get(word, [0.0] * 100) for word in inventory.words])
            found = known.any(1)
            parser.words.weight[found] = known[found] * (SPREAD / known[found].std())
    counts = Counter(leaf.word.lower() for tree in trees for leaf in tree.leaves())
    share = [FORGETFUL / (FORGETFUL + counts[word]) if word in counts else 0.0 for word in inventory.words]
    return parser, np.array(share, np.float32)


def train(
    trees: Sequence[Tree],
    held_out: Sequence[Tree],
    output: Path,
    epochs: int,
    vectors: Mapping[str, list[float]] | None = None,
    seed: int = 1,
) -> None:
    """Adam, a batch at a time, with averaged weights; one line for each epoch."""
    torch.manual_seed(seed)
    order, forgets = random.Random(seed), np.random.default_rng(seed)
    parser, share = begin(trees, vectors or {})
    inventory, tags, average = parser.inventory, len(parser.inventory.tags), AveragedModel(parser, avg_fn=averaged)
    mean = cast(Parser, average.module).eval()
    data, valid = examples(inventory, trees), examples(inventory, held_out)
    optimizer = torch.optim.AdamW(parser.parameters(), lr=1.5e-3, betas=(0.9, 0.98))
    steps = epochs * len(batches(data, BATCH_WORDS, order))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / 100, 1) * (1 - step / steps))

    def forget(example: Example) -> Example:
        unknown = forgets.random(len(example.source)) < share[example.source // tags]
        source = np.where(unknown, UNKNOWN * tags + example.source % tags, example.source)
        return dataclasses.replace(example, source=source.astype(np.int32))

    for epoch in range(epochs):
        parser.train()
        for batch in track(batches(data, BATCH_WORDS, order), f"epoch {epoch + 1} of {epochs}", transient=True):
            loss, count = batch_loss(parser, [forget(example) for example in batch])
            (loss / count).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(parser.parameters(), 5.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            average.update_parameters(parser)
        with torch.inference_mode():
            sums = [batch_loss(mean, batch) for batch in batches(valid, BATCH_WORDS, order)]
        figure = float(sum(loss for loss, _ in sums)) / sum(count for _, count in sums)
        print(f"epoch {epoch + 1}: {figure:.4f} nats an action on {len(held_out)} held-out trees", flush=True)
        mean.save(output)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("train", type=Path)
    arguments.add_argument("held_out", type=Path)
    arguments.add_argument("--output", type=Path, required=True)
    arguments.add_argument("--vectors", type=Path, help="of words, in word2vec's text format")
    arguments.add_argument("--epochs", type=int, default=14)
    flags = arguments.parse_args()
    vectors = read_vectors(flags.vectors) if flags.vectors else None
    train(read_trees(flags.train), read_trees(flags.held_out), flags.output, flags.epochs, vectors)
