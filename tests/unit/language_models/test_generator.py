"""Generator and Scorer: answers in order, the same in any company, and with the score that forcing them gives."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from reference.layers import ReferenceLayer
from unit.language_models.conftest import random_tensors

from sharpbeam import Generator, MachineOptions, Scorer, Translator
from sharpbeam.api.scorer import perplexity
from sharpbeam.errors import InputError, ModelError, OptionError
from sharpbeam.models.lstm_lm.config import LstmLmConfig
from sharpbeam.storage.model_folder import save_model
from sharpbeam.text.sentencepiece import BOS_ID, EOS_ID, PAD_ID
from sharpbeam.text.words import SPECIAL_WORDS, WordVocabulary
from sharpbeam.types import Request

WORDS = WordVocabulary([*SPECIAL_WORDS, *(a + b for a in "bdfgk" for b in "aeiou")])
PROMPTS = ["ba de", "", "ki", "gu gu fo ba ba de da", "what is ba", "ki de do"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder with random weights: ends come by themselves, bos and pad as good as never."""
    config = LstmLmConfig(len(WORDS), embedding_dim=12, hidden_dim=19, layers=2)
    tensors = random_tensors(config, seed=4)
    tensors["output_weight"] *= 2
    tensors["output_bias"][[BOS_ID, PAD_ID]] = -50
    tensors["output_bias"][EOS_ID] += 1.5
    folder = tmp_path_factory.mktemp("lm") / "model"
    save_model(folder, config, tensors, {"vocab.json": WORDS.serialized}, "# tiny\n")
    return folder


@pytest.fixture(scope="module")
def generator(model: Path) -> Generator:
    return Generator(model)


@pytest.fixture(scope="module")
def scorer(model: Path) -> Scorer:
    return Scorer(model)


def by_hand(model: Path, prompt: str, steps: int) -> list[int]:
    """Greedy tokens, by the model's interface and the reference output layer."""
    parts = Generator(model).loaded
    output_layer = ReferenceLayer(*parts.model.output())
    run, words = parts.model.open(), [EOS_ID, *WORDS.encode(prompt)]
    zero = np.zeros(1, np.int32)
    for _ in range(steps):
        state = run.admit([Request(0, np.array(words, np.int32))])
        hidden, _ = run.step(zero, state, np.array([BOS_ID], np.int32))
        words.append(int(output_layer.topk(hidden, 1).token[0, 0]))
        run.evict(zero)
        if words[-1] == EOS_ID:
            break
    return words[1 + len(WORDS.encode(prompt)) :]


def test_greedy_is_the_best_word_each_time(generator, model):
    options = {"beam_size": 1, "max_length": 9, "return_scores": True}
    for prompt, result in zip(PROMPTS, generator.generate(PROMPTS, **options), strict=True):
        words = by_hand(model, prompt, 9)
        assert result.prompt == prompt
        assert result.text == WORDS.decode(words)
        assert len(result.hypotheses[0].token_scores) == len(words)


@pytest.mark.parametrize("options", [{"batch_tokens": 1}, {"batch_tokens": 5}, {"batch_tokens": 4000}])
@pytest.mark.parametrize("threads", [1, 2])
def test_answers_are_the_same_in_any_company(generator, model, options, threads):
    together = generator.generate(PROMPTS, beam_size=3, num_hypotheses=2, max_length=8)
    other = Generator(model, machine=MachineOptions(threads=threads))
    assert other.generate(PROMPTS, beam_size=3, num_hypotheses=2, max_length=8, **options) == together
    assert [generator.generate([p], beam_size=3, num_hypotheses=2, max_length=8)[0] for p in PROMPTS] == together


def test_the_score_of_a_search_is_the_score_of_the_sentence(generator, scorer):
    ended = 0
    for beam in (1, 4):
        for result in generator.generate(PROMPTS, beam_size=beam, num_hypotheses=beam, max_length=9):
            for answer in result.hypotheses:
                prompt = len(WORDS.encode(result.prompt))
                forced = scorer.score([f"{result.prompt} {answer.text}"])[0].token_scores
                count = len(answer.token_scores)  # one more than words where the end was reached
                assert forced[prompt : prompt + count] == answer.token_scores
                ended += count > len(answer.tokens)
    assert ended > 5


def test_beam_search_finds_likelier_sentences(generator):
    options = {"min_length": 5, "max_length": 6, "length_penalty": 0.0, "return_scores": True}
    greedy, beam = (generator.generate(PROMPTS, beam_size=k, **options) for k in (1, 8))
    gains = [b.hypotheses[0].log_prob - g.hypotheses[0].log_prob for b, g in zip(beam, greedy, strict=True)]
    assert min(gains) >= 0 < max(gains)


def test_native_and_pytorch_say_the_same(generator, scorer, model):
    torch_model = pytest.importorskip("support.torch_model", reason="PyTorch is not installed")
    generator_twin, scorer_twin = (torch_model.torch_translator(model, kind) for kind in (Generator, Scorer))
    texts = [result.text for result in generator.generate(PROMPTS, max_length=9)]
    assert [result.text for result in generator_twin.generate(PROMPTS, max_length=9)] == texts
    for a, b in zip(scorer.score(texts), scorer_twin.score(texts), strict=True):
        np.testing.assert_allclose(a.token_scores, b.token_scores, atol=1e-4)


def test_a_stream_is_of_several_texts(scorer):
    for texts, message in (("abc", "give a list of texts"), ([3], "text 0 is 3; it must be a str")):
        with pytest.raises(InputError, match=message):
            list(scorer.score_stream(texts))
    with pytest.raises(OptionError, match="length_penalty"):
        scorer.score_stream([], length_penalty="much")


def test_a_stream_goes_on_where_the_line_before_ended(scorer):
    lines = ["ba de", "", "ki fo gu", "what"]
    stream = list(scorer.score_stream(lines))
    alone = scorer.score(lines)
    assert stream[0] == alone[0]
    assert [a.token_scores for a in stream[1:]] != [a.token_scores for a in alone[1:]]
    parts = scorer.loaded  # the whole text as one prompt and its forced continuation
    words = [w for line in lines for w in (*WORDS.encode(line), EOS_ID)]
    run, zero, token = parts.model.open(), np.zeros(1, np.int32), np.array([BOS_ID], np.int32)
    state = run.admit([Request(0, np.array([EOS_ID], np.int32))])
    truth = []
    for word in words:
        hidden, state = run.step(zero, state, token)
        token = np.array([word], np.int32)
        truth.append(float(parts.exact.log_prob(hidden, token)[0]))
    assert [score for answer in stream for score in answer.token_scores] == truth
    assert stream[2].tokens == ("ki", "fo", "gu") and stream[3].tokens == ("<unk>",)


def test_perplexity_of_a_uniform_model_is_the_number_of_words():
    assert perplexity(-np.log(7.0) * 30, 30) == pytest.approx(7.0)


def test_long_prompts_lose_their_beginning(generator, caplog):
    with caplog.at_level(logging.WARNING, logger="sharpbeam"):
        long, short = generator.generate(["ki ki ki ba de", "ba de"], max_input_length=2, beam_size=1, max_length=5)
    assert long.text == short.text
    assert long.truncated and short.truncated  # the sentence's beginning counts too
    assert "prompt 0 has 6 tokens" in caplog.text


def test_wrong_use_is_named(generator, model, tiny_model):
    with pytest.raises(ModelError, match=r"is a language model; a translation model is needed here. Use it with Gener"):
        Translator(model)
    with pytest.raises(ModelError, match=r"is a translation model; a language model is needed here. Use it with Trans"):
        Generator(tiny_model)
    with pytest.raises(InputError, match=r"give a list of prompts"):
        generator.generate("ba")
    with pytest.raises(OptionError, match=r"beam_size is 0"):
        generator.generate_iter(["ba"], beam_size=0)


def test_two_language_models_answer_as_one(model, scorer, tmp_path):
    """The mean of their log probabilities, made a distribution again; of other widths and prompts of any length."""
    config = LstmLmConfig(len(WORDS), embedding_dim=7, hidden_dim=23, layers=1)
    save_model(tmp_path / "b", config, random_tensors(config, seed=5), {"vocab.json": WORDS.serialized}, "# tiny\n")
    both = Generator([model, tmp_path / "b"])
    together = both.generate(PROMPTS, max_length=8)
    assert [both.generate([prompt], max_length=8)[0] for prompt in PROMPTS] == together
    assert Generator(model).generate(PROMPTS, max_length=8) != together
    twice = Scorer(f"{model}+{model}").score(PROMPTS)
    np.testing.assert_allclose([s.log_prob for s in twice], [s.log_prob for s in scorer.score(PROMPTS)], atol=1e-4)


def test_an_answer_has_no_length_by_its_prompt(generator: Generator) -> None:
    with pytest.raises(OptionError, match="max_length_factor is 2"):
        generator.generate(["the"], max_length_factor=2)


def test_a_session_takes_a_prompt(generator):
    with generator.session(max_length=5) as session:
        assert session.submit(PROMPTS[0]).result() == generator.generate(PROMPTS[:1], max_length=5)[0]
