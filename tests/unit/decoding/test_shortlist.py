"""Translating with a shortlist: a sentence's answer never depends on its neighbors, and scores are forced scores."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from support.searches import hypotheses

from sharpbeam import Translator
from sharpbeam.decoding.forced import force_all
from sharpbeam.decoding.inputs import requests_of
from sharpbeam.errors import ModelError
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.output_layers.shortlist import Shortlist


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


def test_search_score_is_forced_score(translator: Translator, sentences: list[str]):
    choices = DecodeOptions.of(beam_size=3, max_length=10, output_layer="shortlist")
    requests = requests_of(translator.loaded, sentences[:30], None, choices)
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
