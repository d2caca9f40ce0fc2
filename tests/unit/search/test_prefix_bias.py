"""A prefix that is only made likelier: as a model whose probabilities are biased, whatever is in the batch."""

from __future__ import annotations

import random

import numpy as np
import pytest
from reference.beam import reference_search
from support.toys import BOS, EOS, GivenScores, ToyLayer, ToyModel, toy_requests
from unit.search.test_beam import toy_log_probs
from unit.search.test_prefix import with_prefixes

from sharpbeam import OptionError, Translator
from sharpbeam.decoding.loop import decode
from sharpbeam.options.decode import ScheduleOptions, SearchOptions
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Floats, Ids, Prefix, Request, TopK


@pytest.mark.parametrize("beta", [0.01, 0.3, 0.99])
@pytest.mark.parametrize("values", [{}, {"min_length": 3}, {"repetition_penalty": 1.3}, {"max_children": 2}])
def test_equals_a_search_of_biased_probabilities(beta: float, values: dict) -> None:
    followed = 0
    for seed in range(12):
        model = ToyModel(seed, eos_bias=1.0)
        output_layer = ToyLayer(*model.output())
        options = SearchOptions(
            return_scores=True, beam_size=3, num_hypotheses=3, max_length=7, prefix_bias_beta=beta, **values
        )
        requests = with_prefixes(toy_requests(6, seed), seed, 6)
        search = BeamSearch(options, BOS, EOS, output_layer.vocab_size)
        shuffled = random.Random(seed).sample(requests, len(requests))
        plan = Plan(shuffled, ScheduleOptions(schedule="stream", max_rows=9), 3, 1)
        results = dict(decode(model.open(), output_layer, search, plan.schedule()))
        for request in requests:
            prefix = tuple(request.prefix.token.tolist()) if request.prefix else ()
            plain = toy_log_probs(model, output_layer, request)
            penalty = options.repetition_penalty

            def biased(tokens: tuple[int, ...], plain=plain, prefix=prefix, penalty=penalty) -> np.ndarray:
                logits = plain(tokens).astype(np.float32)
                logits[list(set(tokens))] *= np.float32(penalty)
                logits = logits.astype(np.float64)
                if len(tokens) < len(prefix) and tokens == prefix[: len(tokens)]:
                    logits += np.log1p(-beta)
                    logits[prefix[len(tokens)]] = np.logaddexp(logits[prefix[len(tokens)]], np.log(beta))
                return logits.astype(np.float32)

            easy = SearchOptions(
                return_scores=True,
                **{"beam_size": 3, "num_hypotheses": 3, "max_length": 7}
                | {name: value for name, value in values.items() if name != "repetition_penalty"},
            )
            expected = reference_search(biased, easy, EOS)
            assert [h.tokens for h in results[request.index]] == [
                tuple(t for t in w.tokens if t != EOS) for w in expected
            ]
            np.testing.assert_allclose(
                [h.score for h in results[request.index]], [w.score for w in expected], rtol=1e-6
            )
            followed += bool(prefix) and results[request.index][0].tokens[: len(prefix)] == prefix
    assert followed > 20 or beta < 0.9


def test_a_small_bias_is_free_to_leave_a_bad_prefix(tiny_model, sentences: list[str]) -> None:
    translator = Translator(tiny_model)
    plain = translator.translate(sentences[:8], max_length=12)
    prefix = plain[1].text.split()[-1]
    forced = translator.translate(sentences[:8], target_prefix=prefix, max_length=12)
    nearly = translator.translate(sentences[:8], target_prefix=prefix, prefix_bias_beta=1e-9, max_length=12)
    surely = translator.translate(sentences[:8], target_prefix=prefix, prefix_bias_beta=1 - 1e-9, max_length=12)
    assert [t.text for t in nearly] == [t.text for t in plain]
    assert [t.tokens for t in surely] == [t.tokens for t in forced]
    one = translator.translate(sentences[3:4], target_prefix=prefix, prefix_bias_beta=0.5, max_length=12)
    many = translator.translate(sentences[:8], target_prefix=prefix, prefix_bias_beta=0.5, max_length=12)
    assert one[0] == many[3]


@pytest.mark.parametrize("found", [True, False])
def test_a_token_that_fills_rows_up_gets_the_bias_once(found: bool) -> None:
    """Rows with few candidates are filled up with token 0 at -inf, which may be the next token of the prefix."""

    class Few(GivenScores):
        def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
            value, token = np.full((1, k), -np.inf, np.float32), np.zeros((1, k), np.int32)
            value[0, :2], token[0, :2] = np.log([0.6, 0.4]), [7, 0] if found else [7, 8]
            return TopK(value, token)

        def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
            return np.full(len(token), -np.inf, np.float32)

    search = BeamSearch(SearchOptions(beam_size=3, prefix_bias_beta=0.5, max_length=4), BOS, EOS, 20)
    prefix = Prefix(np.array([0, 4], np.int32), np.zeros(2, np.float32))
    rows = search.begin([Request(0, np.array([2], np.int32), prefix)], np.zeros(1, np.int32))
    tokens = search.step(rows, Few(np.zeros((1, 20), np.float32))).rows.token.tolist()
    assert tokens == ([0, 7] if found else [0, 7, 8])


def test_what_a_bias_cannot_go_with_is_refused_at_once(tiny_model) -> None:
    translator = Translator(tiny_model)
    for options, message in (
        ({}, "0 without a target_prefix"),
        ({"target_prefix": "a", "sampling": True}, "left at 0.0 with sampling"),
        ({"target_prefix": "a", "cube_pruning": "exact"}, "0 with cube_pruning or return_alternatives"),
        ({"target_prefix": "a", "normalize": False}, "0 with normalize False: logits may be above 0"),
        ({"target_prefix": "a", "return_alternatives": True}, "0 with cube_pruning or return_alternatives"),
    ):
        with pytest.raises(OptionError, match=message):
            translator.translate_iter(["ein Haus"], prefix_bias_beta=0.5, **options)
    with pytest.raises(OptionError, match=r"prefix_bias_beta is 1\.0; it must be at least 0"):
        SearchOptions(return_scores=True, prefix_bias_beta=1.0)
