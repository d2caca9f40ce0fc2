"""`generate` and `score` on the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli.conftest import call, run  # noqa: F401  (fixtures)
from unit.language_models.test_generator import PROMPTS, model  # noqa: F401

from sharpbeam import Generator, Scorer
from sharpbeam.decoding.loading import load_model
from sharpbeam.options.decode import MachineOptions
from sharpbeam.types import Request


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_text("ba de\n\nki fo gu what\n")
    return path


def test_generate_answers_prompts_in_order(call, model):  # noqa: F811
    flags = [flag for prompt in PROMPTS for flag in ("--prompt", prompt)]
    options = ("--beam-size", 3, "--num-hypotheses", 2, "--max-length", 6)
    outcome = Generator(model).generate(PROMPTS, beam_size=3, num_hypotheses=2, max_length=6)
    result = call("generate", model, *flags, *options)
    assert result.status == 0, result.err
    assert result.lines == [f"{f.prompt} {h.text}".strip() for f in outcome for h in f.hypotheses]
    records = [json.loads(line) for line in call("generate", model, *flags, *options, "--format", "jsonl").lines]
    assert [(r["index"], r["prompt"]) for r in records] == list(enumerate(PROMPTS))
    assert [[h["text"] for h in r["hypotheses"]] for r in records] == [[h.text for h in f.hypotheses] for f in outcome]


def test_generate_reads_standard_input(run, model):  # noqa: F811
    result = run("generate", model, "--beam-size", 1, "--max-length", 4, stdin=b"ba de\n\nki\n")
    outcome = Generator(model).generate(["ba de", "", "ki"], beam_size=1, max_length=4)
    assert result.lines == [f"{f.prompt} {f.text}".strip() for f in outcome]


@pytest.mark.parametrize("apart", [False, True])
def test_score_says_each_line_and_the_perplexity_of_all(call, model, text, apart):  # noqa: F811
    lines = text.read_text().splitlines()
    scorer = Scorer(model)
    answers = scorer.score(lines) if apart else list(scorer.score_stream(lines))
    result = call("score", model, "--target", text, *(["--apart"] if apart else []))
    assert result.lines == [f"{answer.log_prob:.6f}" for answer in answers]
    total = sum(answer.log_prob for answer in answers)
    assert f"3 lines, 9 tokens with the ends of lines: log_prob {total:.3f}, perplexity " in result.err


def test_wrong_use_of_score_is_named(call, model, text, tiny_model, tmp_path):  # noqa: F811
    call("score", model, "--source", text, "--target", text).refused(2, "--source is for translations")
    call("score", tiny_model, "--apart", "--source", text, "--target", text).refused(
        2, "--apart is for language models"
    )
    (tmp_path / "empty").write_text("")
    call("score", model, "--target", tmp_path / "empty").refused(1, "is empty; there is nothing to score")
    call("translate", model, text).refused(1, "is a language model")


def test_info_names_the_architecture(call, model):  # noqa: F811
    facts = json.loads(call("info", model, "--json").out)
    assert (facts["architecture"], facts["target_vocabulary"]) == ("lstm-lm", "the same")


def test_a_language_model_gets_a_screen(call, model, tmp_path):  # noqa: F811
    """Fitted on the steps of the text itself: hidden vectors, and the exact layer's best tokens."""
    folder, text = tmp_path / "model", tmp_path / "train"
    shutil.copytree(model, folder)
    words = np.random.default_rng(1).choice(["ba", "de", "ki", "fo", "gu"], (200, 5))
    text.write_text("".join(" ".join(line) + "\n" for line in words))
    flags = ("--method", "kmeans", "--clusters", 3, "--fidelity", 0.5, "--top-k", 2)
    result = call("fit", "screen", folder, "--text", text, *flags, "--work", tmp_path / "vectors")
    assert result.status == 0, result.err
    parts = load_model(folder, MachineOptions(), "language")
    records = np.load(tmp_path / "vectors/part-00000.npy")
    targets = [*parts.target.encode(text.read_text().splitlines()[0]), parts.model.eos_id]
    expected: list[Any] = []
    decoding = parts.model.open()
    request = np.zeros(1, np.int32)
    state = decoding.admit([Request(0, np.array([parts.model.eos_id], np.int32))])
    for token in [parts.model.bos_id, *targets[:-1]]:
        hidden, state = decoding.step(request, state, np.array([token], np.int32))
        expected.append(hidden[0].tolist())
    assert records["hidden"][: len(targets)].tolist() == expected
    assert (records["floor"] == -np.inf).all()
    texts = text.read_text().splitlines()[:20]
    scorer = Scorer(folder)
    near = zip(scorer.score(texts, output_layer="screen"), scorer.score(texts), strict=True)
    assert all(screened.log_prob == pytest.approx(exact.log_prob, rel=0.05) for screened, exact in near)
