"""Constituency trees, and the actions of a shift-reduce parser that builds them (Cross & Huang 2016)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

TOKEN = re.compile(r"[()]|[^\s()]+")
FUNCTION = re.compile(r"(?<=.)[-=].*")
ROOTS = ("ROOT", "TOP")
PUNCTUATION = frozenset((",", ".", ":", "``", "''"))  # tags
NONE = ""  # the label of a span that is no constituent


@dataclass(frozen=True)
class Tree:
    """A constituent with its children, or, without children, a word under its tag."""

    label: str
    children: tuple[Tree, ...] = ()
    word: str = ""

    def __str__(self) -> str:
        inside = " ".join(map(str, self.children)) if self.children else self.word
        return f"({self.label} {inside})"

    def leaves(self) -> Iterator[Tree]:
        """The words with their tags, from left to right."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def read_tree(text: str) -> Tree:
    """The tree in brackets, as in `(ROOT (NP-SBJ (DT a) (NN tree)))`, without a root over one constituent.

    Functions (-SBJ, =1) are taken off the labels, as usual. Raises ValueError where the brackets do not fit.
    """
    tokens = TOKEN.findall(text)
    tree, end = _read(tokens, 0)
    if end != len(tokens):
        raise ValueError(f"{len(tokens) - end} tokens are left behind the tree {text[:60]!r}")
    return tree.children[0] if tree.label in ROOTS and len(tree.children) == 1 else tree


def _read(tokens: list[str], place: int) -> tuple[Tree, int]:
    """The tree that begins at `place`, and the place after it."""
    if tokens[place : place + 1] != ["("] or len(tokens) < place + 4:
        raise ValueError(
            f"a tree must begin with '(', a label and what it holds: {' '.join(tokens[place : place + 4])!r}"
        )
    label, place = tokens[place + 1], place + 2
    if tokens[place] != "(":
        return Tree(label, word=tokens[place]), place + 2
    children = []
    while place < len(tokens) and tokens[place] == "(":
        child, place = _read(tokens, place)
        children.append(child)
    if tokens[place : place + 1] != [")"]:
        raise ValueError(f"the bracket of {label!r} is not closed")
    return Tree(FUNCTION.sub("", label), tuple(children)), place + 1


def actions(tree: Tree) -> list[str]:
    """The actions that build `tree`: "shift" and "combine", each followed by the label of the new span.

    A constituent of several children is combined from the left, its unfinished spans labelled NONE; a chain of
    constituents over the same words is one label, joined by "+". n words take 4 n - 2 actions.
    """
    chain, node = [], tree
    while len(node.children) == 1:
        chain.append(node.label)
        node = node.children[0]
    if not node.children:
        return ["shift", "+".join(chain)]
    made = actions(node.children[0])
    for place, child in enumerate(node.children[1:], 2):
        made += [*actions(child), "combine", "+".join([*chain, node.label]) if place == len(node.children) else NONE]
    return made


def build(made: Sequence[str], leaves: Sequence[Tree]) -> Tree:
    """The tree that `made` builds over the words `leaves`, the inverse of `actions`; a forest is put below ROOT."""
    stack: list[tuple[Tree, ...]] = []
    words = iter(leaves)
    for action, label in zip(made[::2], made[1::2], strict=True):
        if action == "shift":
            span: tuple[Tree, ...] = (next(words),)
        else:
            right = stack.pop()
            span = stack.pop() + right
        for name in reversed(label.split("+") if label else []):
            span = (Tree(name, span),)
        stack.append(span)
    (span,) = stack
    return span[0] if len(span) == 1 else Tree("ROOT", span)


def brackets(tree: Tree) -> Counter[tuple[str, int, int]]:
    """The constituents of `tree`, label and words from and to, as EVALB counts them with COLLINS.prm.

    Roots do not count, nor does punctuation at either end of a constituent; PRT is ADVP.
    """
    tags = [leaf.label for leaf in tree.leaves()]
    counts: Counter[tuple[str, int, int]] = Counter()

    def count(node: Tree, left: int) -> int:
        if not node.children:
            return left + 1
        right = left
        for child in node.children:
            right = count(child, right)
        first, end = left, right
        while first < end and tags[first] in PUNCTUATION:
            first += 1
        while first < end and tags[end - 1] in PUNCTUATION:
            end -= 1
        if first < end and node.label not in ROOTS:
            counts["ADVP" if node.label == "PRT" else node.label, first, end] += 1
        return right

    count(tree, 0)
    return counts
