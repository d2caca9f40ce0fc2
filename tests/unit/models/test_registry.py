"""A kind of model from outside the package: registered, saved, loaded and searched as any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from sharpbeam import Translator
from sharpbeam.errors import ModelError
from sharpbeam.models import registry
from sharpbeam.models.interface import Decoding
from sharpbeam.models.registry import Architecture, register_architecture
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.model_folder import save_model
from sharpbeam.text.words import SPECIAL_WORDS, WordVocabulary
from sharpbeam.types import Footprint

WORDS = WordVocabulary([*SPECIAL_WORDS, "a", "b", "c", "d"])


@dataclass(frozen=True)
class BigramConfig:
    source_vocab_size: int
    target_vocab_size: int
    unk_id: int = 0
    bos_id: int = 1
    eos_id: int = 2
    pad_id: int = 3

    @property
    def footprint(self) -> Footprint:
        return Footprint(8, 8)


class BigramModel:
    """The hidden vector is the row of the last token; nothing of the source is read."""

    bos_id, eos_id = 1, 2

    def __init__(self, config: BigramConfig, tensors: Mapping[str, np.ndarray]) -> None:
        self.table = np.ascontiguousarray(tensors["table"])
        self.weight = np.eye(len(self.table), dtype=np.float32)
        self.bias = np.zeros(len(self.table), np.float32)

    def output(self):
        return self.weight, self.bias

    def open(self):
        return BigramRun(self.table)


class BigramRun(Decoding):
    def __init__(self, table: np.ndarray) -> None:
        self.table = table

    def admit(self, requests):
        return np.array([request.index for request in requests], np.int32)

    def step(self, request, state, token):
        return self.table[token], state

    def retain(self, state):
        pass

    def evict(self, request):
        pass


def check_shapes(config, shapes):
    if shapes != {"table": (config.source_vocab_size, config.target_vocab_size)}:
        raise ModelError(f"the tensors are {shapes}; there must be one, table.")


BIGRAM = Architecture("bigram", "translation", BigramConfig, check_shapes, load=BigramModel)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "_ALL", dict(registry._ALL))
    register_architecture(BIGRAM)
    table = np.full((8, 8), -9.0, np.float32)
    for token, following in ((1, 4), (4, 6), (6, 5), (5, 2)):  # a c b
        table[token, following] = 3.0
    files = {"source.vocab.json": WORDS.serialized}
    save_model(tmp_path / "bigram", BigramConfig(8, 8), {"table": table}, files, "# bigram\n")
    return tmp_path / "bigram"


@pytest.mark.parametrize("beam_size", [1, 3])
def test_an_architecture_from_outside_is_searched_as_any_other(folder, beam_size):
    answer = (
        Translator(folder)
        .translate(["d d"], beam_size=beam_size, output_layer="exact", return_scores=True)[0]
        .hypotheses[0]
    )
    assert answer.text == "a c b"
    assert -0.1 < answer.log_prob < 0.0


def test_its_folder_is_refused_where_it_is_not_registered(folder, monkeypatch):
    monkeypatch.delitem(registry._ALL, "bigram")
    with pytest.raises(ModelError, match="architecture is 'bigram'; it must be one of recurrent, "):
        Translator(folder)


def test_names_and_configs_that_are_taken_are_refused(monkeypatch):
    monkeypatch.setattr(registry, "_ALL", dict(registry._ALL))
    with pytest.raises(ModelError, match="'transformer' is there already"):
        register_architecture(Architecture("transformer", "translation", BigramConfig, check_shapes, load=BigramModel))
    with pytest.raises(ModelError, match="TransformerConfig is the config of another"):
        register_architecture(Architecture("own", "translation", TransformerConfig, check_shapes, load=BigramModel))
    with pytest.raises(ModelError, match="'own' has no load"):
        register_architecture(Architecture("own", "translation", BigramConfig, check_shapes))
    register_architecture(BIGRAM)
    register_architecture(BIGRAM)  # a module that is imported again
