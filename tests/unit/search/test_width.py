"""Variable width: without a threshold it is the fixed beam; thresholds, children, and both finishing rules."""

from __future__ import annotations

import numpy as np
import pytest
from support.toys import EOS, ToyLayer, ToyModel, asked, step, toy_requests

from sharpbeam.decoding.loop import decode
from sharpbeam.errors import OptionError
from sharpbeam.options.decode import SearchOptions
from sharpbeam.scheduling.batches import FixedBatches
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.search.beam import BeamSearch
from sharpbeam.search.work import Work
from sharpbeam.types import Hypothesis


def run(seed: int, **values) -> tuple[dict[int, list[Hypothesis]], Work]:
    model = ToyModel(seed, eos_bias=2.0)
    output_layer = ToyLayer(*model.output(), steps=4 * (seed % 2))
    options = SearchOptions(return_scores=True, beam_size=4, num_hypotheses=4, max_length=12, **values)
    search = BeamSearch(options, model.bos_id, model.eos_id, output_layer.vocab_size)
    return dict(
        decode(model.open(), output_layer, search, FixedBatches(RequestQueue(toy_requests(8, seed))))
    ), search.work


def test_a_threshold_that_nothing_misses_is_the_fixed_beam() -> None:
    for seed in range(6):
        fixed = run(seed)
        assert run(seed, max_score_margin=1e9, max_children=20) == fixed
        assert run(seed, max_children=8) == fixed  # as many as are ever looked at


def test_a_lower_margin_expands_less() -> None:
    counts = [sum(run(seed, max_score_margin=margin)[1].expansions for seed in range(4)) for margin in (0.0, 1.0, 4.0)]
    assert counts[0] < counts[1] < counts[2] < sum(run(seed)[1].expansions for seed in range(4))


LOW = -9.0


def children(options: SearchOptions, *steps: list[list[float]]) -> tuple[list[list[int]], dict[int, list[Hypothesis]]]:
    """The last tokens on the beam after each step, where rows have log probabilities steps[t][row] of
    pad, bos, eos and the words 3, 4; and what is finished."""
    search = BeamSearch(options, 1, EOS, 5)
    rows = search.begin(asked(0), np.zeros(1, np.int32))
    seen = []
    for scores in steps:
        result = step(search, rows, np.array(scores[: len(rows)], np.float32))
        rows = result.rows
        seen.append(rows.token.tolist())
    return seen, result.finished


def test_the_best_may_have_finished_in_an_earlier_step() -> None:
    options = SearchOptions(return_scores=True, beam_size=2, max_score_margin=2.0, early_stopping="exhaustive")
    first, second = [[LOW, LOW, -0.5, -1.0, -2.4]], [[LOW, LOW, LOW, -1.4, -1.6]] * 2
    assert children(options, first, second)[0] == [[3, 4], [3]]  # -2.4 and -2.6 against -0.5
    assert children(options, first, [[LOW, LOW, LOW, -1.6, LOW]] * 2)[0][1] == []  # and so the request is done


def test_the_ratio_is_of_sums() -> None:
    options = SearchOptions(return_scores=True, beam_size=3, max_score_ratio=1.5)
    assert children(options, [[-1.6, LOW, LOW, -1.0, -1.5]])[0] == [[3, 4]]


def test_at_most_so_many_children_of_one_parent() -> None:
    options = SearchOptions(return_scores=True, beam_size=3, max_children=2, min_length=1)
    first = [[-0.9, LOW, -0.1, -0.5, -0.6]]  # eos may not come yet, so it is no child
    second = [[-0.1, LOW, LOW, -0.2, -0.3], [-0.7, LOW, LOW, -0.8, -0.9]]
    assert children(options, first, second)[0] == [[3, 4], [0, 3, 0]]


def test_a_finished_hypothesis_that_stays_can_fall_off() -> None:
    first = [[LOW, LOW, -1.2, -0.5, -1.0]]
    second = [[LOW, LOW, LOW, -0.1, -0.2]] * 3  # -0.6, -0.7 and -1.1, all above -1.2
    options = {"beam_size": 3, "max_length": 2, "num_hypotheses": 3, "early_stopping": "exhaustive"}
    for finishing, expected in (("leave", [(3, 3), (3, 4), (4, 3)]), ("stay", [(3, 3), (3, 4), (4, 3)])):
        outcome = children(
            SearchOptions(return_scores=True, finishing=finishing, length_penalty=0.0, **options), first, second
        )[1]
        assert [h.tokens for h in outcome[0]] == expected
    # A negative penalty flatters the short one, which "leave" keeps for ever.
    for finishing, kept in (("leave", True), ("stay", False)):
        outcome = children(
            SearchOptions(return_scores=True, finishing=finishing, length_penalty=-2.0, **options), first, second
        )[1]
        assert (() in [h.tokens for h in outcome[0]]) is kept


def test_a_finished_hypothesis_that_stays_takes_a_place() -> None:
    first = [[LOW, LOW, -0.2, -0.5, -1.0]]
    second = [[LOW, LOW, LOW, -0.1, -0.2]]
    for finishing, expected in (("leave", [[3, 4], [3, 4]]), ("stay", [[3], [3]])):
        options = SearchOptions(return_scores=True, beam_size=2, finishing=finishing, early_stopping="exhaustive")
        assert children(options, first, second * 2)[0] == expected


@pytest.mark.parametrize(
    ("name", "value"), [("max_score_margin", -0.1), ("max_score_ratio", 0.9), ("max_children", 0), ("finishing", "go")]
)
def test_wrong_values_are_named(name: str, value: object) -> None:
    with pytest.raises(OptionError, match=f"{name} is {value!r}; it must be"):
        SearchOptions(return_scores=True, **{name: value})
