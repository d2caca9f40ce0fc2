"""Transformers of the sizes that people use, with random weights: for speed only, since they say nothing sensible.

`model(name)` is a folder of ours in build/bench/peaked-shapes; words are w0, w1, .. with spaces between. A folder
has a shortlist of about 1,000 words for a source and a screen of 600 words for a cluster, both made at random. The
shortlist costs what a fitted one of the same size costs. The screen costs what a fitted one does without its uncertain
rows: no row falls back to `scan`, where some of one that was fitted for a fidelity do (a quarter of them for de-en
at 0.999).
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from bench.harness.record import ROOT
from sharpbeam.decoding.loading import load_model
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.options.decode import MachineOptions
from sharpbeam.output_layers.screen import Screen, Screens
from sharpbeam.output_layers.shortlist import Shortlist
from sharpbeam.storage.model_folder import read_config, save_model
from sharpbeam.text.pieces import PieceVocabulary
from sharpbeam.types import Floats

HOME = ROOT / "build" / "bench" / "peaked-shapes"
ALWAYS, TRANSLATIONS = 400, 20  # words of every set; of each source word
CLUSTERS, SET = 100, 600
DEVIATION = 4.4  # of logits: distributions have about 4 nats; flat ones, of ten, would make beams of near-ties
FIRST_WORD = 4

_OPUS = TransformerConfig(
    source_vocab_size=58101,
    target_vocab_size=58101,
    norm="post",
    encoder_final_norm=False,
    decoder_final_norm=False,
    activation="swish",
    shared_embedding=True,
    tied_output=True,
)
SHAPES: Mapping[str, TransformerConfig] = {
    "opus-6+6": _OPUS,
    "opus-12+1": dataclasses.replace(_OPUS, encoder_layers=12, decoder_layers=1),
    "nllb-600m": TransformerConfig(
        source_vocab_size=256206,
        target_vocab_size=256206,
        hidden_dim=1024,
        encoder_layers=12,
        decoder_layers=12,
        encoder_heads=16,
        decoder_heads=16,
        encoder_ffn_dim=4096,
        decoder_ffn_dim=4096,
        positions="sinusoidal-t2t",
        position_offset=2,
        shared_embedding=True,
        tied_output=True,
        languages={"deu_Latn": 256204, "eng_Latn": 256205},
        source_language="deu_Latn",
        target_language="eng_Latn",
        source_tag="source",
        target_tag=True,
    ),
    "base-memory": dataclasses.replace(  # of Mozilla's training configurations
        _OPUS,
        source_vocab_size=32000,
        target_vocab_size=32000,
        hidden_dim=384,
        encoder_ffn_dim=1536,
        decoder_ffn_dim=1536,
        decoder_layers=4,
        decoder_kind="ssru",
        activation="relu",
    ),
    "tiny": dataclasses.replace(
        _OPUS, source_vocab_size=3000, target_vocab_size=3000, hidden_dim=64, encoder_ffn_dim=64
    ),
}


def model(name: str) -> Path:
    """The folder of the model `name`, made where it is not there yet, or another shape is."""
    folder, config = HOME / name, SHAPES[name]
    if not (folder / "screen.json").is_file() or read_config(folder) != config:
        shutil.rmtree(folder, ignore_errors=True)
        _make(folder, config)
    return folder


def sources(name: str, count: int, length: int, seed: int = 0) -> list[str]:
    """`count` texts of `length` words."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(FIRST_WORD, SHAPES[name].source_vocab_size, (count, length))
    return [" ".join(f"w{word}" for word in row) for row in ids.tolist()]


def _make(folder: Path, config: TransformerConfig) -> None:
    draw = np.random.default_rng(1)
    size = config.target_vocab_size
    special = {"unk_id": config.unk_id, "bos_id": config.bos_id, "eos_id": config.eos_id, "pad_id": config.pad_id}
    pieces = ["<unk>", "<s>", "</s>", "<pad>", *(f"w{i}" for i in range(FIRST_WORD, size))]
    words = PieceVocabulary(pieces, special, (), None)
    tensors = {name: _random(draw, name, shape) for name, shape in config.tensor_shapes().items()}
    last = "decoder_norm" if config.decoder_final_norm else f"decoder.{config.decoder_layers - 1}.ffn.norm"
    tensors[f"{last}.weight"] *= np.float32(DEVIATION)
    save_model(folder, config, tensors, {"source.pieces.json": words.listed}, "# random weights, for timing only\n")
    parts = load_model(folder, MachineOptions())
    ids = [*special.values(), *config.languages.values()]  # CTranslate2 fails where its map lacks an answer's tag
    always = np.unique([*ids, *draw.integers(FIRST_WORD, size, ALWAYS)]).astype(np.int32)
    start = np.arange(0, TRANSLATIONS * size + 1, TRANSLATIONS, dtype=np.int32)
    token = draw.integers(FIRST_WORD, size, TRANSLATIONS * size, np.int32)
    parts.artifacts.save("shortlist", Shortlist(always, start, token), {"from": "random numbers"})
    sets = [np.unique([config.eos_id, *draw.integers(FIRST_WORD, size, min(SET, size // 2))]) for _ in range(CLUSTERS)]
    bounds = np.cumsum([0, *map(len, sets)]).astype(np.int32)
    center = draw.standard_normal((CLUSTERS, config.hidden_dim)).astype(np.float32)
    screen = Screen(center, np.zeros(CLUSTERS, np.float32), bounds, np.concatenate(sets).astype(np.int32))
    parts.artifacts.save("screen", Screens("all", {"": screen}), {"from": "random numbers"})


def _random(draw: np.random.Generator, name: str, shape: tuple[int, ...]) -> Floats:
    """Weights as they are begun with: outputs have about the size of the inputs."""
    if name.endswith("norm.weight"):
        return np.ones(shape, np.float32)
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    return draw.standard_normal(shape, np.float32) * np.float32(shape[1] ** -0.5)
