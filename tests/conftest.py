"""Fixtures of all tests: a tiny model with random weights, made without PyTorch."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.model_folder import save_model
from sharpbeam.text.sentencepiece import train_sentencepiece

# Read when PyTorch is loaded: the products of tests are tiny, and threads that wait for each other on a busy
# machine take minutes where one takes seconds.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Tests compare with references in float32; those of automatic choices take this away.
os.environ["SHARPBEAM_EXACT"] = "1"

# No test leaves a note of what it read in the user's cache.
os.environ["SHARPBEAM_CACHE"] = ""

# No example has a time limit: a busy machine may stop any of them for a second.
settings.register_profile("sharpbeam", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("sharpbeam")

_SYLLABLES = [consonant + vowel for consonant in "bdklmn" for vowel in "aeiou"]


def make_sentences(count: int, seed: int) -> list[str]:
    """Sentences of made-up words, one to twelve words long; the same seed gives the same."""
    draw = random.Random(seed)
    words = ["".join(draw.choices(_SYLLABLES, k=draw.randint(1, 4))) for _ in range(400)]
    return [" ".join(draw.choices(words, k=draw.randint(1, 12))).capitalize() + "." for _ in range(count)]


def random_tensors(config: GruConfig, seed: int) -> dict[str, np.ndarray]:
    """Weights for `config` large enough that the words and the ends of the answers depend on the input."""
    draw = np.random.default_rng(seed)
    tensors = {}
    for name, shape in config.tensor_shapes().items():
        scale = 0.1 if len(shape) == 1 else 0.5 if "embedding" in name else 3.0 * (3.0 / shape[-1]) ** 0.5
        tensors[name] = draw.normal(0, scale, shape).astype(np.float32)
    tensors["output_bias"][config.eos_id] += 11.0  # most answers end by themselves, a few run to max_length
    return tensors


@pytest.fixture(scope="session")
def sentences() -> list[str]:
    """300 sentences; the vocabulary of `tiny_model` is trained on them."""
    return make_sentences(300, seed=1)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory, sentences: list[str]) -> Path:
    """A model folder: 200 pieces, every width tiny, random weights. Treat it as read-only: all tests share it."""
    root = tmp_path_factory.mktemp("tiny")
    (root / "pieces.spm").write_bytes(train_sentencepiece(sentences, "pieces.spm", size=200, coverage=1.0, seed=1))
    config = GruConfig(
        source_vocab_size=200,
        target_vocab_size=200,
        embedding_dim=16,
        encoder_layers=1,
        encoder_dim=12,
        decoder_dim=20,
        attention_dim=12,
        hidden_dim=16,
        shared_embedding=True,
        tied_output=True,
    )
    folder = root / "model"
    vocabularies = {"source.spm": (root / "pieces.spm").read_bytes()}
    save_model(folder, config, random_tensors(config, seed=1), vocabularies, "# tiny\n\nRandom weights, for tests.\n")
    return folder


@pytest.fixture
def make_transformer(tiny_model: Path, tmp_path: Path) -> Callable[..., Path]:
    """A folder with a tiny transformer with the given facts next to the sizes, and the vocabulary of `tiny_model`."""

    def make(**facts: Any) -> Path:
        sizes = {"hidden_dim": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_heads": 2, "decoder_heads": 2}
        config = TransformerConfig(200, 200, **sizes, encoder_ffn_dim=20, decoder_ffn_dim=20, **facts)
        draw = np.random.default_rng(3)
        shapes = config.tensor_shapes()
        tensors = {name: draw.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
        vocabularies = {"source.spm": (tiny_model / "source.spm").read_bytes()}
        save_model(tmp_path / "transformer", config, tensors, vocabularies, "# tiny\n\nRandom weights, for tests.\n")
        return tmp_path / "transformer"

    return make
