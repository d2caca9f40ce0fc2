"""Output layers on the device: all tokens, or the union of a screen's sets (CVP); the answer alone goes to the host."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from threading import Lock

import numpy as np
import torch
from torch import Tensor

from sharpbeam.errors import OptionError
from sharpbeam.gpu.device import operations
from sharpbeam.gpu.graphs import MOST_ROWS, RowGraph, padded_rows
from sharpbeam.gpu.plain import MOST_K, Best, IndexList
from sharpbeam.gpu.vectors import Vectors
from sharpbeam.options.schema import require
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.registry import LayerInputs, find_output_layer, output_layers
from sharpbeam.output_layers.screen import Screen
from sharpbeam.types import Floats, Ids, TopK


class DeviceLayer(RowLayer):
    """All tokens, by a matmul with a fused top-k and log-sum-exp: the logits [R, V] are not written."""

    def __init__(
        self, weight: Floats, bias: Floats, vectors: Vectors, device: torch.device, dtype: torch.dtype
    ) -> None:
        """Output matrix [V, D] and bias [V], float32; the device keeps the matrix as `dtype`."""
        self.vocab_size = len(weight)
        self._device, self._vectors, self._operations = device, vectors, operations(device)
        self._weight = torch.from_numpy(np.array(weight)).to(device, dtype)
        self._bias = torch.from_numpy(np.array(bias)).to(device)
        self._normalize = True
        self.graphs = device.type == "cuda"  # whether answers are captured
        self._start()

    def _start(self) -> None:
        """Have no graphs, where this layer is a copy of another."""
        self._captured: dict[tuple[int, int], RowGraph] = {}
        self._lock = Lock()
        self._logits: DeviceLayer | None = None

    def unnormalized(self) -> DeviceLayer:
        """The same layer with logits for log probabilities: `Normalizing`; one, so that its graphs are kept."""
        with self._lock:
            if self._logits is None:
                other = copy(self)
                other._normalize = False
                other._start()
                self._logits = other
            return self._logits

    @torch.inference_mode()
    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row, ties by lower id; OptionError unless 1 <= k <= V.

        `hidden` is what a run's step returned, or vectors [R, D] float32.
        """
        if not 1 <= k <= self.vocab_size:
            raise OptionError(f"k is {k}; it must be from 1 to the vocabulary size, {self.vocab_size}")
        vectors = self._vectors.take(hidden)
        if self.graphs and k <= MOST_K and 0 < len(vectors) <= MOST_ROWS:
            wanted = min(padded_rows(k), self.vocab_size)  # so that few numbers are captured
            with self._lock:
                answer = self._replayed(vectors, wanted)[:, :, :k].cpu().numpy()
        else:
            answer = self._answer(vectors, k).cpu().numpy()
        return TopK(answer[0].view(np.float32), answer[1])

    def _answer(self, hidden: Tensor, k: int) -> Tensor:
        """Log probabilities, by their bits, and tokens of the k best: [2, R, k] int32, in one piece for the host."""
        best = self.best(hidden, k)
        log_prob = best.logit - best.log_sum[:, None] if self._normalize else best.logit
        return torch.stack([log_prob.view(torch.int32), best.token])

    def _replayed(self, hidden: Tensor, k: int) -> Tensor:
        """The same by the graph for so many rows; the first row fills it up, which adds nothing to a union."""
        count, rows = len(hidden), padded_rows(len(hidden))
        if (rows, k) not in self._captured:
            first = hidden[:1].repeat(rows, 1)
            self._captured[rows, k] = RowGraph(lambda vectors: self._answer(vectors, k), first)
        graph = self._captured[rows, k]
        graph.inputs[:count], graph.inputs[count:] = hidden, hidden[:1]
        return graph.replay()[:, :count]

    def best(self, hidden: Tensor, k: int) -> Best:
        """The k best tokens of hidden vectors [R, D] on the device."""
        best: Best = self._operations.best_tokens(hidden, self._weight, self._bias, k)
        return best

    @torch.inference_mode()
    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of one token [R] of each row."""
        vectors, tokens = self._vectors.take(hidden), torch.from_numpy(token).to(self._device)
        log_prob: Floats = self._log_prob(vectors, tokens.long()).cpu().numpy()
        return log_prob

    def _log_prob(self, hidden: Tensor, token: Tensor) -> Tensor:
        logit = (hidden.float() * self._weight[token].float()).sum(1) + self._bias[token]
        return logit - self.best(hidden, 1).log_sum if self._normalize else logit


class UnionLayer(DeviceLayer):
    """The published layer of CVP (section 2.3): the rows of a step share the union of their sets.

    A mask and its compaction list the union on the device; one matmul gathers its rows of the output matrix. Tokens
    outside have probability zero. A row's answer depends on the other rows of its step.
    """

    def __init__(self, dense: DeviceLayer, screen: Screen) -> None:
        self.__dict__.update(vars(dense))
        self._start()
        parts = (screen.token, screen.start, screen.weight, screen.bias)
        self._token, self._begin, centroid, self._centroid_bias = (
            torch.from_numpy(np.array(part)).to(self._device) for part in parts
        )
        self._centroid = centroid.to(self._weight.dtype)
        self._largest = int(np.diff(screen.start).max())

    def best(self, hidden: Tensor, k: int) -> Best:
        """The k best tokens of the union; token 0 at -inf where it has fewer."""
        best: Best = self._operations.best_tokens(hidden, self._weight, self._bias, k, tokens=self.union(hidden))
        return best

    def union(self, hidden: Tensor) -> IndexList:
        """The tokens in the set of any row's cluster, listed on the device.

        A row's cluster is the one with the largest C h - |C|^2 / 2, so the nearest; the lowest on ties.
        """
        cluster = self._operations.best_tokens(hidden, self._centroid, self._centroid_bias, 1).token[:, 0]
        sets = self._token, self._begin, self._largest, self.vocab_size
        union: IndexList = self._operations.union_of_sets(cluster, *sets)
        return union

    def _log_prob(self, hidden: Tensor, token: Tensor) -> Tensor:
        union = self.union(hidden)
        there = torch.isin(token, union.index[: int(union.count)])
        return torch.where(there, super()._log_prob(hidden, token), float("-inf"))


def build_layer(name: str, inputs: Callable[[], LayerInputs], dense: DeviceLayer) -> DeviceLayer:
    """The output layer `name` of a model on the device; raises OptionError where there is none of that name."""
    if not find_output_layer(name).on_gpu:
        there = " or ".join(other for other in output_layers() if find_output_layer(other).on_gpu)
        raise OptionError(f"output_layer is {name!r}; on a GPU it must be auto, {there}.")
    layer_inputs = inputs()
    screens, sets = layer_inputs.artifacts.read("screen"), layer_inputs.options.screen_sets
    require(sets == "union", "screen_sets", sets, "union on a GPU")
    allowed = f"exact on a GPU for a model with a screen for each {screens.per}"
    require(screens.per == "all", "output_layer", name, allowed)
    return UnionLayer(dense, screens.by_scope[""])
