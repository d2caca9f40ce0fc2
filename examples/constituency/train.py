"""Train the parser on trees in brackets, one a line, and save the epoch with the lowest loss on held-out trees.

python examples/constituency/train.py train.trees.gz dev.trees.gz --output runs/parser
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from rich.progress import track
from torch import Tensor

from sharpbeam.text.lines import read_lines
from sharpbeam.types import Ids

sys.path.insert(0, str(Path(__file__).parents[2]))  # so that it runs from anywhere

from examples.constituency.model import FORBIDDEN, LABELS, SHIFT, UNKNOWN, Inventory, Parser, State
from examples.constituency.trees import Tree, read_tree

Example = tuple[Ids, list[int]]  # a sentence and the actions of its tree


def read_trees(path: Path) -> list[Tree]:
    """The trees of a file, .gz or not."""
    return [read_tree(line) for line in read_lines(path)]


def batch_loss(parser: Parser, batch: Sequence[Example]) -> tuple[Tensor, int]:
    """Sum of the losses of all actions of a batch, each after the right ones before it, and their number."""
    memories = parser.encode([source for source, _ in batch])
    spans, golds, masks, offset = [], [], [], 0
    for (source, ids), memory in zip(batch, memories, strict=True):
        state = State()
        for action in ids[:-1]:
            spans.append([(a + offset, b + offset) for a, b in state.spans(len(source))])
            golds.append(action)
            masks.append(state.possible(len(source)))
            state = state.after(action)
        offset += len(memory)
    gold = torch.tensor(golds)
    labels = gold >= LABELS
    features = parser.features(torch.cat(memories), torch.tensor(spans))
    hidden = parser.dropout(parser.hidden(features, labels))
    width = parser.hidden_width
    forbidden = torch.where(torch.tensor(masks), 0.0, FORBIDDEN)
    structure = parser.structure_output(hidden[~labels, :width]) + forbidden[~labels, 1:3]
    label = parser.label_output(hidden[labels, width:])
    label = torch.cat([label[:, :1] + forbidden[labels, 3:4], label[:, 1:]], 1)
    loss = F.cross_entropy(structure, gold[~labels] - SHIFT, reduction="sum")
    return loss + F.cross_entropy(label, gold[labels] - LABELS, reduction="sum"), len(golds)


def examples(inventory: Inventory, trees: Sequence[Tree]) -> list[Example]:
    """Sentences and actions."""
    return [(inventory.encode(tree), inventory.action_ids(tree)) for tree in trees]


def batches(data: Sequence[Example], words: int, order: random.Random) -> list[list[Example]]:
    """Batches of sentences of like length, of so many words together, shuffled."""
    made: list[list[Example]] = [[]]
    for example in sorted(data, key=lambda e: (len(e[0]), order.random())):
        if sum(len(source) for source, _ in made[-1]) + len(example[0]) > words and made[-1]:
            made.append([])
        made[-1].append(example)
    order.shuffle(made)
    return made


def forget_words(source: Ids, tags: int, order: random.Random, share: float) -> Ids:
    """The sentence with some of its words unknown, so that the parser learns to do without."""
    drop = np.array([order.random() < share for _ in source])
    return np.where(drop, UNKNOWN * tags + source % tags, source).astype(np.int32)


def train(trees: Sequence[Tree], held_out: Sequence[Tree], output: Path, epochs: int, seed: int = 1) -> None:
    """Adam, a batch at a time; one line for each epoch."""
    torch.manual_seed(seed)
    order = random.Random(seed)
    inventory = Inventory.build(trees)
    parser = Parser(inventory)
    optimizer = torch.optim.Adam(parser.parameters(), lr=2e-3)
    data, valid = examples(inventory, trees), examples(inventory, held_out)
    best = float("inf")
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = 2e-3 * (1 - epoch / epochs)
        parser.train()
        for batch in track(batches(data, 600, order), f"epoch {epoch + 1} of {epochs}", transient=True):
            seen = [(forget_words(source, len(inventory.tags), order, 0.1), ids) for source, ids in batch]
            loss, count = batch_loss(parser, seen)
            (loss / count).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(parser.parameters(), 5.0)
            optimizer.step()
            optimizer.zero_grad()
        parser.eval()
        with torch.inference_mode():
            sums = [batch_loss(parser, batch) for batch in batches(valid, 600, order)]
        figure = float(sum(loss for loss, _ in sums)) / sum(count for _, count in sums)
        print(f"epoch {epoch + 1}: {figure:.4f} nats an action on {len(held_out)} held-out trees", flush=True)
        if figure < best:
            best = figure
            parser.save(output)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("train", type=Path)
    arguments.add_argument("held_out", type=Path)
    arguments.add_argument("--output", type=Path, required=True)
    arguments.add_argument("--epochs", type=int, default=16)
    flags = arguments.parse_args()
    train(read_trees(flags.train), read_trees(flags.held_out), flags.output, flags.epochs)
