"""Translating with a shortlist: a sentence's answer never depends on its neighbors, and scores are forced scores."""

from __future__ import annotations

import dataclasses
import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.searches import hypotheses

from sharpbeam import Translator
from sharpbeam.decoding.forced import force_all
from sharpbeam.decoding.inputs import requests_of
from sharpbeam.errors import ModelError
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.output_layers.interface import OutputLayer, OutputLayerRun
from sharpbeam.output_layers.shortlist import Shortlist, ShortlistTest


@pytest.fixture()
def translator(tiny_model: Path, tmp_path: Path) -> Translator:
    """With lists of eight random words for each source word, and twenty in every set."""
    folder = Path(shutil.copytree(tiny_model, tmp_path / "model"))
    draw = np.random.default_rng(1)
    start = np.arange(201, dtype=np.int32) * 8
    shortlist = Shortlist(np.arange(20, dtype=np.int32), start, draw.integers(0, 200, 1600).astype(np.int32))
    Translator(folder).loaded.artifacts.save("shortlist", shortlist, {})
    return Translator(folder)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_the_answer_does_not_depend_on_neighbors(translator: Translator, sentences: list[str], beam_size: int):
    options = {"beam_size": beam_size, "max_length": 12, "output_layer": "shortlist"}
    texts = sentences[:40]
    alone = {text: translator.translate([text], **options)[0] for text in texts}
    for seed, more in enumerate(({}, {"batch_tokens": 1000}, {"schedule": "stream", "max_rows": 20})):
        shuffled = random.Random(seed).sample(texts, len(texts))
        for text, result in zip(shuffled, translator.translate(shuffled, **options, **more), strict=True):
            assert result.hypotheses == alone[text].hypotheses
    exact = translator.translate(texts, beam_size=beam_size, max_length=12)
    assert sum(a.text == alone[a.source].text for a in exact) < 40  # the lists do bind


def test_an_answer_without_tokens_has_no_attention(translator: Translator, sentences: list[str]) -> None:
    """Its set has eos alone, which min_length bans; the others have theirs."""
    source, eos_id = translator.loaded.source, translator.loaded.model.eos_id
    without = {*source.encode(sentences[0]), eos_id}
    lists = [[] if token in without else list(range(20, 60)) for token in range(200)]
    start = np.cumsum([0, *map(len, lists)]).astype(np.int32)
    shortlist = Shortlist(np.array([eos_id], np.int32), start, np.concatenate(lists).astype(np.int32))
    translator.loaded.artifacts.save("shortlist", shortlist, {})
    options = {"output_layer": "shortlist", "min_length": 1, "max_length": 8, "raw": True}
    for more in ({}, {"return_attention": True}, {"coverage_penalty": 1.0}):
        empty, other = Translator(translator.loaded.folder).translate(sentences[:2], **options, **more)
        assert empty.text == "" != other.text and not empty.attention
        assert bool(other.attention) is ("return_attention" in more)


def guarded(translator: Translator, outside: float) -> Translator:
    """With a fallback test that takes e^outside of the mass in a row's set for the likeliest token outside."""
    width = translator.loaded.model.output()[0].shape[1]
    direct = np.array([[0, 1, outside], [0, 0, 0]], np.float32)
    zeros = (np.zeros(shape, np.float32) for shape in ((4, width), 4, (2, 4)))
    translator.loaded.artifacts.save("shortlist_test", ShortlistTest(*zeros, direct, 0.0, 1.0, 0.5), {})
    return Translator(translator.loaded.folder, max_length=12, output_layer="shortlist", batch_tokens=1000)


class RowsAlone(OutputLayer):
    """A layer that is not told what a beam can use."""

    def __init__(self, layer: OutputLayer) -> None:
        self.layer, self.vocab_size = layer, layer.vocab_size

    def open(self) -> OutputLayerRun:
        """The layer's run, which the core does not know."""
        run = self.layer.open()

        class Run(OutputLayerRun):
            admit, topk, log_prob, evict = run.admit, run.topk, run.log_prob, run.evict

        return Run()


def test_what_a_beam_can_use_saves_rows_from_falling_back(translator: Translator, sentences: list[str]) -> None:
    """Not the k-th best of a row counts then, but what is among the best of its request."""
    shares = []
    for wrap in (RowsAlone, lambda layer: layer):
        user = guarded(translator, -5)
        layer = user.loaded.layer_named("shortlist")
        user.loaded = dataclasses.replace(user.loaded, exact=wrap(layer))
        user.translate(sentences[:40], beam_size=4, output_layer="exact")
        shares.append(layer.fallback_share)
    assert 0.05 < shares[1] < 0.9 * shares[0]


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 4},
        {"beam_size": 3, "no_repeat_ngram_size": 2},
        {"beam_size": 1, "repetition_penalty": 1.3},
        {"beam_size": 3, "repetition_penalty": 1.3, "cube_pruning": "exact"},
    ],
)
def test_whether_a_row_falls_back_does_not_depend_on_neighbors(
    translator: Translator, sentences: list[str], options: dict[str, Any]
) -> None:
    """A row falls back where its least candidate is unlikely; neighbors with a prefix or repeats ask for more."""
    translator = guarded(translator, -7)
    texts = sentences[:40]
    prefixes = [None if number % 5 else "ba" for number in range(40)]
    together = translator.translate(texts, target_prefix=prefixes, **options)
    for text, prefix, answer in zip(texts, prefixes, together, strict=True):
        assert translator.translate([text], target_prefix=[prefix], **options)[0].hypotheses == answer.hypotheses
    share = translator.output_layer(translator.defaults).fallback_share
    assert share is not None and 0.05 < share < 0.95


def test_search_score_is_forced_score(translator: Translator, sentences: list[str]):
    choices = DecodeOptions.of(beam_size=3, max_length=10, output_layer="shortlist")
    requests = requests_of(translator.loaded, sentences[:30], choices)
    result = hypotheses(translator, sentences[:30], choices)
    eos = translator.loaded.model.eos_id
    targets = {i: np.array([*h[0].tokens, eos], np.int32)[: len(h[0].token_log_probs)] for i, h in result.items()}
    for index, forced in force_all(translator.loaded, requests, targets, choices).items():
        assert forced.tolist() == list(result[index][0].token_log_probs)
        assert np.isfinite(forced).all()
    shortlist = translator.loaded.layer_named("shortlist").shortlist
    for request in requests:
        assert set(result[request.index][0].tokens) <= set(shortlist.tokens(request.source).tolist())


def test_a_shortlist_of_another_model_is_refused(translator: Translator):
    path = translator.loaded.folder / "shortlist.json"
    facts = json.loads(path.read_text())
    for name in ("output_sha256", "source_vocabulary_sha256", "target_vocabulary_sha256"):
        path.write_text(json.dumps(facts | {name: "0"}))
        with pytest.raises(ModelError, match=r"was fitted for other .* Make it with: sharpbeam fit shortlist"):
            Translator(translator.loaded.folder).translate(["ba"], output_layer="shortlist")
