"""The span-based shift-reduce parser of Cross & Huang (2016), by Sharpbeam's model and output layer interfaces.

Letters: N words of all sentences with their two borders, n words of one sentence, R rows, H width of one direction of
an LSTM, M width of the hidden layers, V actions. A model ends at the hidden vector: its last
coordinates, one for each kind of action, say which actions are possible; the output matrix adds them to the logits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from examples.constituency.trees import NONE, Tree, actions
from sharpbeam.models.interface import Decoding
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.types import Floats, Ids, Request, TopK

EOS, SHIFT, COMBINE = 0, 1, 2  # ids of actions; the labels follow, NONE first
LABELS = 3
KINDS = 5  # eos, shift, combine, no label, a label
FORBIDDEN = -1e4  # what a forbidden kind adds to a logit
BORDER, UNKNOWN = 0, 1  # ids of words
Span = tuple[int, int]


@dataclass
class Inventory:
    """The words, tags and labels that a parser knows, by id."""

    words: list[str]
    tags: list[str]
    labels: list[str]
    word_id: dict[str, int] = field(init=False)
    tag_id: dict[str, int] = field(init=False)
    label_id: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.word_id, self.tag_id, self.label_id = (
            {name: place for place, name in enumerate(names)} for names in (self.words, self.tags, self.labels)
        )

    @classmethod
    def build(cls, trees: Sequence[Tree], more: Iterable[str] = ()) -> Inventory:
        """The words, tags and labels of `trees`, and `more` words."""
        words = Counter(leaf.word.lower() for tree in trees for leaf in tree.leaves())
        tags = sorted({leaf.label for tree in trees for leaf in tree.leaves()})
        labels = sorted({label for tree in trees for label in actions(tree)[1::2]} - {NONE})
        known = [word for word, _ in words.most_common()] + [word for word in more if word not in words]
        return cls(["", "?", *known], ["", "?", *tags], [NONE, *labels])

    def encode(self, tree: Tree) -> Ids:
        """The sentence below `tree` as a request's source [n]: word id * number of tags + tag id."""
        pairs = [
            self.word_id.get(leaf.word.lower(), UNKNOWN) * len(self.tags) + self.tag_id.get(leaf.label, UNKNOWN)
            for leaf in tree.leaves()
        ]
        return np.array(pairs, np.int32)

    def action_ids(self, tree: Tree) -> list[int]:
        """The actions that build `tree`, then eos; a label that is not known becomes NONE."""
        structural = {"shift": SHIFT, "combine": COMBINE}
        ids = [
            structural[name] if place % 2 == 0 else LABELS + self.label_id.get(name, 0)
            for place, name in enumerate(actions(tree))
        ]
        return [*ids, EOS]

    def action_names(self, ids: Sequence[int]) -> list[str]:
        """The inverse of `action_ids`, without eos."""
        return [("", "shift", "combine")[i] if i < LABELS else self.labels[i - LABELS] for i in ids]


@dataclass(frozen=True)
class State:
    """A half-built parse: the borders between the spans on the stack, from 0 to the words shifted so far."""

    borders: tuple[int, ...] = (0,)
    labels_next: bool = False  # the span on top waits for its label

    def after(self, action: int) -> State:
        """The state that `action` leads to."""
        if action == SHIFT:
            return State((*self.borders, self.borders[-1] + 1), True)
        if action == COMBINE:
            return State((*self.borders[:-2], self.borders[-1]), True)
        return State(self.borders, False)

    def possible(self, words: int) -> tuple[bool, bool, bool, bool, bool]:
        """Which of the kinds of actions are possible in a sentence of so many words."""
        whole = self.borders == (0, words)
        if self.labels_next:
            return False, False, False, not whole, True
        complete = whole and words > 0
        return complete, self.borders[-1] < words, len(self.borders) > 2, False, False

    def spans(self, words: int) -> list[Span]:
        """The spans whose features decide: what is left of the top two, these two, and the rest of the sentence.

        Before a label there is no second span: what is left of the top one, the top one, the rest (section 2 of the
        paper). The two tasks have a hidden layer each, so that the places may mean different things.
        """
        padded = (0, 0, 0, *self.borders)
        third, second, top = padded[-3:]
        if self.labels_next:
            return [(0, second), (second, top), (top, words), (0, 0)]
        return [(0, third), (third, second), (second, top), (top, words)]


def decisions(states: Sequence[State], words: Sequence[int], begins: Sequence[int]) -> tuple[Tensor, Tensor]:
    """The spans [R, 4, 2] whose features decide in `states`, and what is added to logits of each kind [R, KINDS].

    Spans are rows of a memory, in which the sentence of each state begins at `begins` and has so many `words`.
    """
    spans = torch.tensor([state.spans(count) for state, count in zip(states, words, strict=True)])
    possible = torch.tensor([state.possible(count) for state, count in zip(states, words, strict=True)])
    return spans + torch.tensor(begins)[:, None, None], torch.where(possible, 0.0, FORBIDDEN)


class Parser(nn.Module):
    """Two bidirectional LSTMs over words and tags; a span is the difference of their outputs at its two borders."""

    def __init__(self, inventory: Inventory, width: int = 250, hidden: int = 250, dropout: float = 0.45) -> None:
        super().__init__()
        self.inventory, self.width, self.hidden_width = inventory, width, hidden
        self.words = nn.Embedding(len(inventory.words), 100)
        self.tags = nn.Embedding(len(inventory.tags), 40)
        self.first = nn.LSTM(140, width, bidirectional=True, batch_first=True)
        self.second = nn.LSTM(2 * width, width, bidirectional=True, batch_first=True)
        self.structure, self.label = nn.Linear(16 * width, hidden), nn.Linear(12 * width, hidden)
        self.structure_output = nn.Linear(hidden, 2)
        self.label_output = nn.Linear(hidden, len(inventory.labels))
        self.dropout, self.light_dropout = nn.Dropout(dropout), nn.Dropout(0.2)

    def encode(self, sources: Sequence[Ids]) -> list[Tensor]:
        """Outputs of both LSTMs, forward then backward, at each word and at the borders of a sentence: [n + 2, 4 H]."""
        lengths = [len(source) + 2 for source in sources]
        ids = torch.zeros(len(sources), max(lengths), dtype=torch.long)
        for row, source in enumerate(sources):
            ids[row, 1 : len(source) + 1] = torch.from_numpy(source)
        tags = len(self.inventory.tags)
        seen = self.light_dropout(torch.cat([self.words(ids // tags), self.tags(ids % tags)], 2))
        packed = nn.utils.rnn.pack_padded_sequence(seen, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
        below, _ = self.first(packed)
        above, _ = self.second(below._replace(data=self.dropout(below.data)))
        each = [nn.utils.rnn.pad_packed_sequence(one, batch_first=True)[0].chunk(2, 2) for one in (below, above)]
        outputs = torch.cat([part for direction in zip(*each, strict=True) for part in direction], 2)
        return [outputs[row, :length] for row, length in enumerate(lengths)]

    def features(self, memory: Tensor, spans: Tensor) -> Tensor:
        """Spans [R, 4, 2], given by rows of `memory` [N, 4 H], as [R, 4 * 4 H]: what lies between their borders."""
        forward, backward = memory.chunk(2, 1)
        left, right = spans[:, :, 0], spans[:, :, 1]
        return torch.cat([forward[right] - forward[left], backward[left + 1] - backward[right + 1]], 2).flatten(1)

    def hidden(self, features: Tensor, labels: Tensor) -> Tensor:
        """Hidden vectors [R, 2 M] of features [R, 16 H]: the other task's half is zero; `labels` [R] says whose."""
        hidden = features.new_zeros(len(features), 2 * self.hidden_width)
        label, structure = labels.nonzero()[:, 0], (~labels).nonzero()[:, 0]
        hidden[structure, : self.hidden_width] = torch.relu(self.structure(self.dropout(features[structure])))
        spans = features[label, : 12 * self.width]
        hidden[label, self.hidden_width :] = torch.relu(self.label(self.dropout(spans)))
        return hidden

    def output(self) -> tuple[Floats, Floats]:
        """Output matrix [V, 2 M + KINDS] and bias [V]; the last columns add what the hidden vector forbids."""
        labels = len(self.inventory.labels)
        weight = torch.zeros(LABELS + labels, 2 * self.hidden_width + KINDS)
        weight[SHIFT : COMBINE + 1, : self.hidden_width] = self.structure_output.weight.detach()
        weight[LABELS:, self.hidden_width : 2 * self.hidden_width] = self.label_output.weight.detach()
        kind = torch.tensor([0, 1, 2, 3] + [4] * (labels - 1))
        weight[torch.arange(len(kind)), 2 * self.hidden_width + kind] = 1.0
        bias = torch.cat([torch.zeros(1), self.structure_output.bias.detach(), self.label_output.bias.detach()])
        return weight.numpy(), bias.numpy()

    def save(self, folder: Path) -> None:
        """Weights and inventory."""
        folder.mkdir(parents=True, exist_ok=True)
        save_file(self.state_dict(), folder / "model.safetensors")
        names = {name: getattr(self.inventory, name) for name in ("words", "tags", "labels")}
        facts = names | {"width": self.width, "hidden": self.hidden_width}
        (folder / "parser.json").write_text(json.dumps(facts) + "\n", encoding="utf-8")

    @staticmethod
    def load(folder: Path) -> Parser:
        """A parser as it was saved, ready to parse."""
        facts = json.loads((folder / "parser.json").read_text(encoding="utf-8"))
        inventory = Inventory(facts["words"], facts["tags"], facts["labels"])
        parser = Parser(inventory, facts["width"], facts["hidden"])
        parser.load_state_dict(load_file(folder / "model.safetensors"))
        return parser.eval()


class ParserDecoding(Decoding):
    """`models.interface.Decoding`: the caches of one decoding run. A handle names a `State`."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._memory = torch.empty(0, 4 * parser.width)  # [N, 4 H] of all sentences in flight, one after the other
        self._place: dict[int, tuple[int, int]] = {}  # where each one's begins, and the number of its words
        self._states: dict[int, tuple[int, State]] = {}  # request and state, by handle
        self._next = 0

    @torch.inference_mode()
    def admit(self, requests: Sequence[Request]) -> Ids:
        """Encode the sentences; the first state of each has nothing on its stack."""
        begin = len(self._memory)
        memories = self._parser.encode([request.source for request in requests])
        for request, memory in zip(requests, memories, strict=True):
            self._place[request.index] = begin, len(request.source)
            begin += len(memory)
        self._memory = torch.cat([self._memory, *memories])
        return np.array([self._keep(request.index, State()) for request in requests], np.int32)

    @torch.inference_mode()
    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """Take the action `token` [R] in each state [R]; bos, which any search gives first, is -1 and does nothing."""
        parser, rows = self._parser, len(state)
        hidden = np.zeros((rows, 2 * parser.hidden_width + KINDS), np.float32)
        after = [
            self._states[handle][1].after(action) if action >= 0 else self._states[handle][1]
            for handle, action in zip(state.tolist(), token.tolist(), strict=True)
        ]
        begin, lengths = zip(*(self._place[name] for name in request.tolist()), strict=True)
        spans, forbidden = decisions(after, lengths, begin)
        features = parser.features(self._memory, spans)
        labels = torch.tensor([s.labels_next for s in after])
        hidden[:, :-KINDS] = parser.hidden(features, labels).numpy()
        hidden[:, -KINDS:] = forbidden.numpy()
        handles = [self._keep(name, s) for name, s in zip(request.tolist(), after, strict=True)]
        return hidden, np.array(handles, np.int32)

    def retain(self, state: Ids) -> None:
        """Free every state but the named ones."""
        self._states = {handle: self._states[handle] for handle in set(state.tolist())}

    def evict(self, request: Ids) -> None:
        """Forget the sentences named by index."""
        for name in request.tolist():
            del self._place[name]
        kept, begin = [self._memory[:0]], 0
        for name, (place, words) in self._place.items():
            kept.append(self._memory[place : place + words + 2])
            self._place[name] = begin, words
            begin += words + 2
        self._memory = torch.cat(kept)

    def _keep(self, request: int, state: State) -> int:
        self._next += 1
        self._states[self._next] = request, state
        return self._next


class ActionLayer(RowLayer):
    """`output_layers.interface.OutputLayer`: the exact layer, with a log probability of -inf for what is forbidden."""

    def __init__(self, parser: Parser) -> None:
        self._exact = ExactLayer.build(*parser.output())
        self.vocab_size = self._exact.vocab_size

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best actions of each row."""
        top = self._exact.topk(hidden, min(k, self.vocab_size))
        return TopK(_possible(top.log_prob), top.token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability of the given action of each row."""
        return _possible(self._exact.log_prob(hidden, token))


def _possible(log_prob: Floats) -> Floats:
    """-inf in place of what the mask has pushed down."""
    return np.where(log_prob < FORBIDDEN / 2, np.float32(-np.inf), log_prob)
