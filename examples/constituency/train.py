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

from examples.constituency.model import COMBINE, LABELS, SHIFT, UNKNOWN, Inventory, Parser, Span, State, decisions
from examples.constituency.trees import Tree, read_tree

BATCH_WORDS = 300
KEPT_WORDS = 25000  # of the vectors
SPREAD = 0.6  # standard deviation of the numbers of a word's vector at the beginning
FORGETFUL = 0.84  # a word is unknown in FORGETFUL / (FORGETFUL + its count) of the cases (Cross & Huang 2016)
Steps = list[tuple[State, int]]  # states and the right actions in them


@dataclass(frozen=True)
class Example:
    """A sentence [n], the labels of the constituents of its tree by span, and the path to the tree."""

    source: Ids
    labels: Mapping[Span, int]
    path: Steps

    @staticmethod
    def of(source: Ids, actions: Sequence[int]) -> Example:
        """From the actions of a tree, the last of which, eos, is not learned."""
        labels, path, state = dict[Span, int](), Steps(), State()
        for action in actions[:-1]:
            if action > LABELS:
                labels[state.borders[-2], state.borders[-1]] = action
            path.append((state, action))
            state = state.after(action)
        return Example(source, labels, path)

    def right(self, state: State) -> int:
        """The action after which the best tree that `state` leads to can still be built (the paper's section 4)."""
        left, right = state.borders[-2:] if len(state.borders) > 1 else (0, 0)
        if state.labels_next:
            return self.labels.get((left, right), LABELS)
        around = (
            (end - begin, begin)
            for begin, end in [*self.labels, (0, len(self.source))]
            if begin in state.borders and begin <= left and end >= right and (begin, end) != (left, right)
        )
        return COMBINE if min(around)[1] < left else SHIFT


def read_trees(path: Path) -> list[Tree]:
    """The trees of a file, .gz or not."""
    return [read_tree(line) for line in read_lines(path)]


def read_vectors(path: Path) -> dict[str, list[float]]:
    """The first vectors of a file of word2vec's, after a line with two numbers; the most frequent words come first."""
    lines = itertools.islice(read_lines(path), 1, KEPT_WORDS + 1)
    vectors = {word: [float(number) for number in rest] for word, *rest in map(str.split, lines)}
    for word, vector in vectors.items():
        if len(vector) != 100:
            raise SystemExit(f"{path} has {len(vector)} numbers for {word!r}; vectors of 100 are needed.")
    return vectors


def drawn_paths(parser: Parser, batch: Sequence[Example], memory: Tensor, begins: Sequence[int]) -> list[Steps]:
    """A path for each example of a batch, by structural actions that are drawn from the parser's probabilities.

    So it learns what to do after a mistake (the paper's section 4). Labels change no later state.
    """
    paths, lengths = [Steps() for _ in batch], [len(example.source) for example in batch]
    states = {place: State() for place in range(len(batch))}
    while states:
        words, places = zip(*((lengths[place], begins[place]) for place in states), strict=True)
        spans, forbidden = decisions([*states.values()], words, places)
        hidden = torch.relu(parser.structure(parser.features(memory, spans)))
        chances = (parser.structure_output(hidden) + forbidden[:, 1:3]).softmax(1)
        for (place, state), kind in zip(list(states.items()), chances.multinomial(1)[:, 0].tolist(), strict=True):
            labelled = state.after(SHIFT + kind)
            paths[place] += [(each, batch[place].right(each)) for each in (state, labelled)]
            states[place] = labelled.after(LABELS)
            if len(paths[place]) == len(batch[place].path):
                del states[place]
    return paths


def batch_loss(parser: Parser, batch: Sequence[Example], draw: bool = False) -> tuple[Tensor, int]:
    """Sum of the losses of all actions of a batch, on its own paths or on drawn ones, and their number."""
    memories = parser.encode([example.source for example in batch])
    begins = list(itertools.accumulate((len(memory) for memory in memories[:-1]), initial=0))
    memory = torch.cat(memories)
    with torch.no_grad():
        paths = drawn_paths(parser, batch, memory, begins) if draw else [example.path for example in batch]
    steps = [
        (state, action, len(example.source), begin)
        for example, begin, path in zip(batch, begins, paths, strict=True)
        for state, action in path
    ]
    states, actions, words, places = zip(*steps, strict=True)
    gold, (spans, forbidden) = torch.tensor(actions), decisions(states, words, places)
    labels = gold >= LABELS
    hidden = parser.dropout(parser.hidden(parser.features(memory, spans), labels))
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
    """Adam, a batch at a time, with averaged weights, on drawn paths after the first epoch; a line for each epoch."""
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
            loss, count = batch_loss(parser, [forget(example) for example in batch], epoch > 0)
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
    arguments.add_argument("--epochs", type=int, default=16)
    flags = arguments.parse_args()
    vectors = read_vectors(flags.vectors) if flags.vectors else None
    train(read_trees(flags.train), read_trees(flags.held_out), flags.output, flags.epochs, vectors)
