"""The parser of examples/constituency: its actions, and its search by our interfaces."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from examples.constituency.model import (  # noqa: E402
    COMBINE,
    EOS,
    LABELS,
    SHIFT,
    ActionLayer,
    Inventory,
    Parser,
    ParserDecoding,
    State,
)
from examples.constituency.train import Example, batch_loss, train  # noqa: E402
from examples.constituency.trees import actions, brackets, build, read_tree  # noqa: E402
from sharpbeam.decoding.loop import decode  # noqa: E402
from sharpbeam.options.decode import ScheduleOptions, SearchOptions  # noqa: E402
from sharpbeam.scheduling.batches import FixedBatches  # noqa: E402
from sharpbeam.scheduling.queue import RequestQueue  # noqa: E402
from sharpbeam.scheduling.stream import Stream  # noqa: E402
from sharpbeam.search.beam import BeamSearch  # noqa: E402
from sharpbeam.types import Request  # noqa: E402

TREES = [
    read_tree(text)
    for text in (
        "(ROOT (S (NP-SBJ (DT the) (NN dog)) (VP (VBZ barks)) (. .)))",
        "(ROOT (NP (NN rain)))",
        "(ROOT (S (NP (PRP she)) (VP (VBZ sees) (NP (NP (DT the) (NN dog)) (PP (IN in) (NP (DT the) (NN rain)))))))",
        "(ROOT (S (NP (DT the) (NN rain)) (VP (VBZ stops))))",
    )
]


@pytest.fixture(scope="module")
def parser() -> Parser:
    torch.manual_seed(4)
    return Parser(Inventory.build(TREES), width=8, hidden=12).eval()


def requests(parser):
    return [Request(index, parser.inventory.encode(tree)) for index, tree in enumerate(TREES)]


def parse(parser, schedule, **options):
    search = BeamSearch(SearchOptions(max_length=60, length_penalty=0.0, **options), -1, EOS, parser_size(parser))
    return dict(decode(ParserDecoding(parser), ActionLayer(parser), search, schedule))


def parser_size(parser):
    return LABELS + len(parser.inventory.labels)


def test_actions_of_a_tree_are_those_of_the_paper():
    assert actions(TREES[0]) == [
        *("shift", "", "shift", "", "combine", "NP", "shift", "VP", "combine", ""),
        *("shift", "", "combine", "S"),
    ]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_actions_build_the_tree_again(tree):
    leaves = list(tree.leaves())
    assert len(actions(tree)) == 4 * len(leaves) - 2
    assert build(actions(tree), leaves) == tree


def test_brackets_are_those_of_evalb():
    """Punctuation at an end, a root, and the difference of PRT and ADVP do not count."""
    tree = read_tree("(TOP (S (`` ``) (S (NP (NNS We)) (VP (VBD gave) (PRT (RP up)))) (, ,)) (X (. .)))")
    assert brackets(tree) == {("S", 1, 4): 2, ("NP", 1, 2): 1, ("VP", 2, 4): 1, ("ADVP", 3, 4): 1}


@pytest.mark.parametrize("text", ["", "(NP", "(NP (NN a)", "(NP (NN a)))", "NN a"])
def test_brackets_that_do_not_fit_are_named(text):
    with pytest.raises(ValueError, match=r"tree|bracket"):
        read_tree(text)


def test_every_answer_is_a_tree_and_streams_say_the_same(parser):
    queries = requests(parser)
    options = {"beam_size": 6, "num_hypotheses": 6, "max_score_margin": 4.0, "max_children": 3}
    fixed = parse(parser, FixedBatches(RequestQueue(queries)), **options)
    order = ScheduleOptions(schedule="stream-shortest", max_step_rows=7)
    stream = parse(parser, Stream(RequestQueue(queries), order, 6, most_requests=3), **options)
    for index, tree in enumerate(TREES):
        assert [h.tokens for h in fixed[index]] == [h.tokens for h in stream[index]]
        for hypothesis in fixed[index]:
            result = build(parser.inventory.action_names(hypothesis.tokens), list(tree.leaves()))
            assert [leaf.word for leaf in result.leaves()] == [leaf.word for leaf in tree.leaves()]
            assert np.isfinite(hypothesis.score)


def test_impossible_actions_have_no_probability(parser):
    model, layer = ParserDecoding(parser), ActionLayer(parser)
    state = model.admit(requests(parser)[1:2])  # one word
    hidden, state = model.step(np.array([1]), state, np.array([-1]))
    first = layer.topk(hidden, parser_size(parser))
    assert first.token[0, 0] == SHIFT
    assert (first.log_prob[0, 1:] == -np.inf).all()  # nothing to combine, nothing to label, not done
    hidden, state = model.step(np.array([1]), state, np.array([SHIFT]))
    every = np.arange(parser_size(parser), dtype=np.int32)
    labels = layer.log_prob(np.repeat(hidden, len(every), 0), every)
    assert (labels[[EOS, SHIFT, COMBINE, LABELS]] == -np.inf).all()  # the whole sentence must have a label
    assert np.exp(labels[LABELS + 1 :]).sum() == pytest.approx(1, abs=1e-5)


def test_scores_of_the_search_are_those_of_training(parser):
    """Step by step = all at once: the log probability of a parse is minus the loss of its actions."""
    queries = requests(parser)
    result = parse(parser, FixedBatches(RequestQueue(queries)), beam_size=3)
    for request in queries:
        best = result[request.index][0]
        loss, _ = batch_loss(parser, [Example.of(request.source, [*best.tokens, EOS])])
        assert best.log_prob == pytest.approx(-float(loss.detach()), abs=1e-4)


@pytest.mark.parametrize("tree", TREES)
def test_the_right_action_loses_no_constituent_that_can_still_be_built(tree):
    inventory = Inventory.build(TREES)
    example = Example.of(inventory.encode(tree), inventory.action_ids(tree))
    words = len(example.source)

    @cache
    def most(state: State) -> int:
        """The most constituents of the tree among those still to come."""
        if state.labels_next:
            return (state.borders[-2:] in example.labels) + most(state.after(LABELS))
        found.add(state)
        return max([most(after) for after in afters(state)], default=0)

    def afters(state: State) -> list[State]:
        return [state.after(a) for a, able in zip((SHIFT, COMBINE), state.possible(words)[1:3], strict=True) if able]

    assert all(example.right(state) == action for state, action in example.path)
    found: set[State] = set()
    most(State())
    for state in found:
        if afters(state):
            assert most(state.after(example.right(state))) == most(state)
        if len(state.borders) > 1:
            label = example.right(State(state.borders, labels_next=True))
            assert label == example.labels.get(state.borders[-2:], LABELS)


def test_training_learns_the_trees_and_a_parser_is_saved(tmp_path):
    train(TREES, TREES, tmp_path / "parser", epochs=200)
    parser = Parser.load(tmp_path / "parser")
    result = parse(parser, FixedBatches(RequestQueue(requests(parser))), beam_size=2)
    names = [parser.inventory.action_names(result[index][0].tokens) for index in range(len(TREES))]
    assert names == [actions(tree) for tree in TREES]
