"""Small deterministic stand-ins for models and output layers, whose answers depend on nothing but the row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sharpbeam import MachineOptions
from sharpbeam.decoding.languages import LanguageTags
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.session import Session
from sharpbeam.models.gru.config import GruConfig
from sharpbeam.models.interface import Decoding
from sharpbeam.options.decode import DecodeOptions
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.search.interface import Search
from sharpbeam.types import Floats, Footprint, Ids, Request, Rows, StepResult, TopK

BOS, EOS = 1, 2


class ToyDecoding(Decoding):
    """state' = tanh(A state + E token + F source): the caches are dictionaries, so a misused handle is a KeyError."""

    def __init__(self, model: ToyModel) -> None:
        self.model = model
        self.sources: dict[int, np.ndarray] = {}
        self.states: dict[int, np.ndarray] = {}
        self.most_sources = 0
        self._next = 0

    def admit(self, requests: Sequence[Request]) -> Ids:
        for request in requests:
            assert request.index not in self.sources
            place = np.arange(1, len(request.source) + 1)[:, None]
            self.sources[request.index] = (self.model.source[request.source] / place).sum(0)
        self.most_sources = max(self.most_sources, len(self.sources))
        return self._keep([np.tanh(self.sources[request.index]) for request in requests])

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        assert request.dtype == state.dtype == token.dtype == np.int32
        rows = []
        for r, s, t in zip(request.tolist(), state.tolist(), token.tolist(), strict=True):
            # one product for each row: what a row says must not depend on its neighbors
            rows.append(np.tanh(self.model.recurrent @ self.states[s] + self.model.target[t] + self.sources[r]))
        return np.stack(rows).astype(np.float32), self._keep(rows)

    def retain(self, state: Ids) -> None:
        self.states = {handle: self.states[handle] for handle in set(state.tolist())}

    def evict(self, request: Ids) -> None:
        for index in request.tolist():
            del self.sources[index]

    def _keep(self, states: list[np.ndarray]) -> Ids:
        handles = range(self._next, self._next + len(states))
        self._next += len(states)
        self.states.update(zip(handles, states, strict=True))
        return np.array(handles, np.int32)


class ToyModel:
    """A recurrent net with random weights; `opened` holds every decoding run of it."""

    bos_id, eos_id = BOS, EOS

    def __init__(self, seed: int, vocab: int = 20, width: int = 8, scale: float = 2.0, eos_bias: float = 1.0) -> None:
        draw = np.random.default_rng(seed)
        self.recurrent = draw.normal(0, 0.5, (width, width))
        self.source = draw.normal(0, 1.0, (max(vocab, 64), width))
        self.target = draw.normal(0, 1.0, (vocab, width))
        self.weight = draw.normal(0, scale, (vocab, width)).astype(np.float32)
        self.bias = np.zeros(vocab, np.float32)
        if vocab > EOS:
            self.bias[EOS] = eos_bias
        self.opened: list[ToyDecoding] = []

    def output(self) -> tuple[Floats, Floats]:
        return self.weight, self.bias

    def open(self) -> ToyDecoding:
        self.opened.append(ToyDecoding(self))
        return self.opened[-1]


class ToyLayer(RowLayer):
    """The exact output layer, row by row. `steps` > 0 rounds log probabilities to 1/steps, so that many are equal."""

    def __init__(self, weight: Floats, bias: Floats, steps: int = 0) -> None:
        self.weight, self.bias, self.steps = weight, bias, steps
        self.vocab_size = len(bias)

    def all(self, hidden: Floats) -> Floats:
        """[R, D] -> log probabilities [R, V]."""
        logits = np.stack([self.weight @ row + self.bias for row in hidden])
        high = logits.max(axis=1, keepdims=True)
        log_prob = logits - high - np.log(np.exp(logits - high).sum(axis=1, keepdims=True))
        return np.round(log_prob * self.steps) / np.float32(self.steps) if self.steps else log_prob

    def topk(self, hidden: Floats, k: int) -> TopK:
        return best(self.all(hidden), k)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        return self.all(hidden)[np.arange(len(token)), token]


def best(log_prob: Floats, k: int) -> TopK:
    """The k best of each row of [R, V], ties by lower id."""
    assert 1 <= k <= log_prob.shape[1]
    token = (-log_prob).argsort(axis=1, kind="stable")[:, :k].astype(np.int32)
    return TopK(np.take_along_axis(log_prob, token, axis=1), token)


def toy_requests(count: int, seed: int, longest: int = 9) -> list[Request]:
    """Requests with random sources of 1 to `longest` ids, eos at the end."""
    draw = np.random.default_rng(seed)
    lengths = draw.integers(0, longest, count)
    return [Request(i, np.append(draw.integers(3, 64, n), EOS).astype(np.int32)) for i, n in enumerate(lengths)]


def asked(*indices: int) -> list[Request]:
    """Requests by name only, for searches that are fed by hand."""
    return [Request(index, np.array([EOS], np.int32)) for index in indices]


class ToyVocabulary:
    """Texts are ids with spaces between them."""

    serialized, special_ids = b"", dict[str, int]()

    def __init__(self, size: int) -> None:
        self._size = size

    def __len__(self) -> int:
        return self._size

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(map(str, ids))

    def pieces(self, ids):
        return tuple(map(self.piece, ids))

    def piece(self, token: int) -> str:
        return str(token)


def toy_loaded(model: ToyModel, layer: ToyLayer, threads: int = 1, row: int = 0) -> LoadedModel:
    """A toy as a loaded translation model."""
    vocabulary: Any = ToyVocabulary(layer.vocab_size)
    config = GruConfig(layer.vocab_size, layer.vocab_size)
    machine = MachineOptions(threads=threads)
    tags = LanguageTags(end=(EOS,))
    return LoadedModel((Path("toy"),), machine, config, model, layer, vocabulary, vocabulary, Footprint(row, 0), tags)


def toy_texts(requests: Iterable[Request]) -> list[str]:
    """The sources of requests, without eos, as texts; one with nothing else is an empty text."""
    return [" ".join(map(str, request.source[:-1].tolist())) for request in requests]


SESSION = {"beam_size": 3, "num_hypotheses": 2, "max_length": 8}


def toy_session(seed: int = 1, threads: int = 1, layer: type[ToyLayer] = ToyLayer, **options: Any) -> Session[Any]:
    """A session of a toy."""
    model = ToyModel(seed, eos_bias=1.0)
    loaded = toy_loaded(model, layer(*model.output()), threads)
    return Session(loaded, DecodeOptions.of(**{"schedule": "stream", "refill_at": 0.9, **SESSION, **options}))


def texts_of(count: int, seed: int = 1) -> list[str]:
    """Texts for a toy, none of them empty."""
    return [text for text in toy_texts(toy_requests(2 * count, seed)) if text][:count]


class GivenScores:
    """A forward pass by hand, `search.interface.Forward`: log probabilities [R, V] of all tokens, or the candidates."""

    native, reason, whole = None, "it is given by hand", False

    def __init__(self, table: Floats | TopK) -> None:
        self.given, self.k = table, 0

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        return np.zeros((len(token), 1), np.float32), np.arange(len(token), dtype=np.int32)

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        self.k = k
        return self.given if isinstance(self.given, TopK) else best(self.given, k)

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        raise AssertionError("only the candidates are needed")


def step(search: Search, rows: Rows, table: Floats | TopK) -> StepResult:
    """One step of `search` with log probabilities [R, V] given by hand; the new states are 0, 1, 2 ..."""
    return search.step(rows, GivenScores(table))
