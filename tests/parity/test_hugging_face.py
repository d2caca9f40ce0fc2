"""Truth 10: beam search equals `generate`, with a tiny random MarianMT by our model interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.toys import ToyLayer

from sharpbeam.decoding.loop import decode
from sharpbeam.models.interface import Decoding
from sharpbeam.options.decode import SearchOptions
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.output_layers.scan import ScanLayer
from sharpbeam.scheduling.batches import FixedBatches
from sharpbeam.scheduling.queue import RequestQueue
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Floats, Ids, Prefix, Request

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

VOCAB, PAD, EOS = 41, 40, 0


class MarianDecoding(Decoding):
    """The model interface on a MarianMT: a state is the prefix, which is run again from the start."""

    def __init__(self, marian) -> None:
        self.marian = marian
        self.sources: dict[int, torch.Tensor] = {}
        self.prefixes: dict[int, tuple[int, ...]] = {}

    def admit(self, requests: Sequence[Request]) -> Ids:
        for request in requests:
            ids = torch.tensor(request.source[None], dtype=torch.long)
            self.sources[request.index] = self.marian.get_encoder()(ids).last_hidden_state
        return self._keep([() for _ in requests])

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        prefixes = [(*self.prefixes[s], t) for s, t in zip(state.tolist(), token.tolist(), strict=True)]
        memory = torch.cat([self.sources[r] for r in request.tolist()])  # the sources have one length
        out = self.marian.model(encoder_outputs=(memory,), decoder_input_ids=torch.tensor(prefixes), use_cache=False)
        return out.last_hidden_state[:, -1].numpy(), self._keep(prefixes)

    def retain(self, state: Ids) -> None:
        self.prefixes = {s: self.prefixes[s] for s in set(state.tolist())}

    def evict(self, request: Ids) -> None:
        for index in request.tolist():
            del self.sources[index]

    def _keep(self, prefixes: list[tuple[int, ...]]) -> Ids:
        first = max(self.prefixes, default=-1) + 1
        handles = range(first, first + len(prefixes))
        self.prefixes.update(zip(handles, prefixes, strict=True))
        return np.array(handles, np.int32)


@pytest.fixture(scope="module", params=[1, 2])
def marian(request: pytest.FixtureRequest):
    torch.manual_seed(request.param)
    config = transformers.MarianConfig(
        vocab_size=VOCAB,
        decoder_vocab_size=VOCAB,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=32,
        pad_token_id=PAD,
        eos_token_id=EOS,
        decoder_start_token_id=PAD,
        forced_eos_token_id=None,
        init_std=1.0,
    )
    model = transformers.MarianMTModel(config).eval()
    model.lm_head.weight.data *= 0.2  # flatter, so that beams differ from greedy
    model.final_logits_bias[0, EOS] = 2.0
    with torch.no_grad():
        yield model


@pytest.mark.parametrize("early_stopping", ["true", "false", "never"])
@pytest.mark.parametrize("beam_size", [1, 4, 5])
def test_equals_generate(marian, beam_size: int, early_stopping: str) -> None:
    draw = np.random.default_rng(5)
    sources = [np.append(draw.integers(1, PAD, 6), EOS).astype(np.int32) for _ in range(3)]
    requests = [Request(i, source) for i, source in enumerate(sources)]
    output_layer = ToyLayer(marian.lm_head.weight.numpy(), marian.final_logits_bias[0].numpy())
    lengths = set()
    for length_penalty, min_length, forced_eos in (
        (1.0, 0, False), (0.0, 3, False), (2.0, 0, False), (-1.0, 0, False), (1.0, 0, True), (2.0, 5, True),
    ):  # fmt: skip
        options = SearchOptions(
            beam_size=beam_size,
            num_hypotheses=beam_size,
            length_penalty=length_penalty,
            early_stopping=early_stopping,
            min_length=min_length,
            max_length=9,
            forced_eos=forced_eos,
        )
        search = BeamSearch(options, PAD, EOS, VOCAB)
        results = dict(decode(MarianDecoding(marian), output_layer, search, FixedBatches(RequestQueue(requests))))
        reference = marian.generate(
            torch.tensor(np.stack(sources), dtype=torch.long),
            num_beams=beam_size,
            num_return_sequences=beam_size,
            length_penalty=length_penalty,
            early_stopping={"true": True, "false": False, "never": "never"}[early_stopping],
            min_new_tokens=min_length,
            max_new_tokens=9,
            forced_eos_token_id=EOS if forced_eos else None,
            do_sample=False,
            output_scores=True,
            return_dict_in_generate=True,
        )
        ours = [hypothesis for request in requests for hypothesis in results[request.index]]
        assert [list(h.tokens) for h in ours] == [_strip(row) for row in reference.sequences.tolist()]
        lengths |= {len(h.tokens) for h in ours}
        if beam_size > 1:
            np.testing.assert_allclose(
                [h.score for h in ours], reference.sequences_scores.numpy(), rtol=1e-4, atol=1e-5
            )
    assert len(lengths) > (2 if beam_size > 1 else 1)  # or little was compared


@pytest.mark.parametrize(
    "rules",
    [{"repetition_penalty": 1.4}, {"no_repeat_ngram_size": 2}, {"repetition_penalty": 1.2, "no_repeat_ngram_size": 1}],
)
def test_rules_against_repetition_equal_those_of_generate(marian, rules: dict) -> None:
    draw = np.random.default_rng(8)
    source = np.append(draw.integers(1, PAD, 6), EOS).astype(np.int32)
    bias = marian.final_logits_bias.clone()
    marian.final_logits_bias[0, PAD] = -1e3  # Hugging Face counts the start token among the words of a row
    marian.final_logits_bias[0, EOS] = -1.0
    output_layer = ToyLayer(marian.lm_head.weight.numpy(), marian.final_logits_bias[0].numpy())
    request = Request(0, source)
    answers = []
    for chosen in (rules, {}):
        options = SearchOptions(beam_size=4, num_hypotheses=4, max_length=12, **chosen)
        search = BeamSearch(options, PAD, EOS, VOCAB)
        results = dict(decode(MarianDecoding(marian), output_layer, search, FixedBatches(RequestQueue([request]))))
        reference = marian.generate(
            torch.tensor(source[None], dtype=torch.long),
            num_beams=4,
            num_return_sequences=4,
            max_new_tokens=12,
            do_sample=False,
            output_scores=True,
            return_dict_in_generate=True,
            **chosen,
        )
        answers.append([list(h.tokens) for h in results[0]])
        assert answers[-1] == [_strip(row) for row in reference.sequences.tolist()]
        np.testing.assert_allclose(
            [h.score for h in results[0]], reference.sequences_scores.numpy(), rtol=1e-4, atol=1e-5
        )
    marian.final_logits_bias.copy_(bias)
    assert answers[0] != answers[1]


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("build", [ExactLayer.build, ScanLayer.build])
def test_a_greedy_penalty_is_one_of_logits_as_in_generate(marian, build: Callable[..., Any], normalize: bool) -> None:
    draw = np.random.default_rng(8)
    bias = np.full(VOCAB, 3.0, np.float32)  # so that some logits are positive, and some negative
    bias[[PAD, EOS]] = -1e3, -1.0  # Hugging Face counts the start token among the words of a row
    before = marian.final_logits_bias.clone()
    marian.final_logits_bias[0] = torch.tensor(bias)
    layer = build(marian.lm_head.weight.numpy().copy(), bias)
    layer = layer if normalize else layer.unnormalized()
    answers = set()
    for penalty in (1.0, 1.4):
        for index in range(8):
            request = Request(0, np.append(draw.integers(1, PAD, 6), EOS).astype(np.int32))
            options = SearchOptions(beam_size=1, max_length=12, return_scores=normalize, repetition_penalty=penalty)
            search = BeamSearch(options, PAD, EOS, VOCAB)
            results = dict(decode(MarianDecoding(marian), layer, search, FixedBatches(RequestQueue([request]))))
            reference = marian.generate(
                torch.tensor(request.source[None], dtype=torch.long),
                num_beams=1,
                max_new_tokens=12,
                do_sample=False,
                repetition_penalty=penalty,
            )
            assert list(results[0][0].tokens) == _strip(reference[0].tolist())
            answers.add((index, results[0][0].tokens))
    marian.final_logits_bias.copy_(before)
    assert len(answers) > 8


def test_a_prefix_equals_decoder_input_ids(marian) -> None:
    """Without a length penalty: Hugging Face does not count the prefix for it, CTranslate2 and we do."""
    draw = np.random.default_rng(6)
    source = np.append(draw.integers(1, PAD, 6), EOS).astype(np.int32)
    output_layer = ToyLayer(marian.lm_head.weight.numpy(), marian.final_logits_bias[0].numpy())
    for prefix in ([7], [3, 9, 9]):
        request = Request(0, source, Prefix(np.array(prefix, np.int32), np.zeros(len(prefix), np.float32)))
        options = SearchOptions(beam_size=4, num_hypotheses=4, length_penalty=0.0, max_length=9)
        search = BeamSearch(options, PAD, EOS, VOCAB)
        results = dict(decode(MarianDecoding(marian), output_layer, search, FixedBatches(RequestQueue([request]))))
        reference = marian.generate(
            torch.tensor(source[None], dtype=torch.long),
            decoder_input_ids=torch.tensor([[PAD, *prefix]]),
            num_beams=4,
            num_return_sequences=4,
            length_penalty=0.0,
            max_new_tokens=9 - len(prefix),
            do_sample=False,
            output_scores=True,
            return_dict_in_generate=True,
        )
        assert [list(h.tokens) for h in results[0]] == [_strip(row) for row in reference.sequences.tolist()]
        np.testing.assert_allclose(
            [h.score for h in results[0]], reference.sequences_scores.numpy(), rtol=1e-4, atol=1e-5
        )


def _strip(row: list[int]) -> list[int]:
    """Tokens between the start token and eos or the padding after it."""
    row = row[1:]
    return row[: row.index(EOS)] if EOS in row else row
