"""recipes/grow.py: a wider model that answers nearly as the one that it is grown from."""

from __future__ import annotations

import importlib.util
import sys
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("torch")

from sharpbeam import Translator
from sharpbeam.storage.model_folder import read_config

ROOT = Path(__file__).parents[3]


def test_a_grown_model_answers_nearly_as_before(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("grow", ROOT / "recipes/grow.py")
    grow = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(grow)
    subjects = ("The old man", "My sister", "The children", "A woman from London", "Our neighbor", "The company")
    verbs = (
        "reads the newspaper",
        "bought a new house",
        "wants to go home",
        "has found the keys",
        "waits for the train",
    )
    ends = ("today.", "in the morning.", "with a friend.", "because it is cold.")
    sentences = [" ".join(parts) for parts in product(subjects, verbs, ends)]
    before = Translator(ROOT / "models/en-pt", compute_type="float32")
    answers = [answer.text for answer in before.translate(sentences, beam_size=1)]
    monkeypatch.setattr(grow, "WORDS", 7)
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"{one}\t{' '.join(two.split()[:7])}\n" for one, two in zip(sentences, answers, strict=True)),
        encoding="utf-8",
    )
    arguments = [
        str(ROOT / "models/en-pt"),
        str(tmp_path / "pairs.tsv"),
        str(tmp_path / "grown"),
        "--hidden-dim",
        "320",
    ]
    monkeypatch.setattr(sys, "argv", ["grow.py", *arguments])
    grow.main()
    config = read_config(tmp_path / "grown")
    assert (config.hidden_dim, config.decoder_layers, config.encoder_layers) == (320, 4, 6)
    after = Translator(tmp_path / "grown", compute_type="float32")
    same = [a == b.text for a, b in zip(answers, after.translate(sentences, beam_size=1), strict=True)]
    assert sum(same) > 0.7 * len(same), f"{sum(same)} of {len(same)}"
