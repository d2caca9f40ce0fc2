"""Output layers on the device: all tokens, or those of a screen (L2S, CVP), with the answer alone sent to the host."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sharpbeam.errors import OptionError
from sharpbeam.gpu.answers import Best, IndexList
from sharpbeam.gpu.device import Kernels
from sharpbeam.gpu.graphs import MOST_ROWS, RowGraph, padded_rows
from sharpbeam.gpu.vectors import Vectors
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.output_layers.registry import LayerInputs, find_output_layer, output_layers
from sharpbeam.output_layers.screen import Screen
from sharpbeam.types import Floats, Ids, TopK

CHUNK = 1 << 14  # rows of the output matrix that are widened at a time


class DeviceLayer(RowLayer):
    """All tokens, by a matmul with a fused top-k and log-sum-exp: the logits [R, V] are not written."""

    def __init__(
        self, weight: Floats, bias: Floats, vectors: Vectors, device: torch.device, dtype: torch.dtype
    ) -> None:
        """Output matrix [V, D] and bias [V], float32; the device keeps the matrix as `dtype`."""
        self.vocab_size = len(weight)
        self._device, self._vectors, self._kernels = device, vectors, Kernels(device)
        self._weight = torch.from_numpy(np.array(weight)).to(device, dtype)
        self._bias = torch.from_numpy(np.array(bias)).to(device)
        self._normalize = True
        self.graphs = device.type == "cuda"
        """Whether answers are captured as CUDA graphs."""
        self._start()

    def _start(self) -> None:
        """Have no graphs, where this layer is a copy of another."""
        self._captured: dict[tuple[int, int], RowGraph] = {}
        self._lock = Lock()

    def unnormalized(self) -> DeviceLayer:
        """The same layer with logits for log probabilities: `Normalizing`."""
        other = copy(self)
        other._normalize = False
        other._start()
        return other

    @torch.inference_mode()
    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row, ties by lower id; OptionError unless 1 <= k <= V.

        `hidden` is what a run's step returned, or vectors [R, D] float32.
        """
        if not 1 <= k <= self.vocab_size:
            raise OptionError(f"k is {k}; it must be from 1 to the vocabulary size, {self.vocab_size}")
        vectors = self._vectors.take(hidden)
        if self.graphs and 0 < len(vectors) <= MOST_ROWS:
            with self._lock:
                answer = self._replayed(vectors, k).cpu().numpy()
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
        return self._kernels.best_tokens(hidden, self._weight, self._bias, k)

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
        self._sets = _Sets(screen, self._weight, self._kernels)

    def best(self, hidden: Tensor, k: int) -> Best:
        """The k best tokens of the union; token 0 at -inf where it has fewer."""
        return self._kernels.best_tokens(hidden, self._weight, self._bias, k, tokens=self.union(hidden))

    def union(self, hidden: Tensor) -> IndexList:
        """The tokens in the set of any row's cluster, listed on the device."""
        sets = self._sets
        return self._kernels.union_of_sets(sets.cluster(hidden), sets.token, sets.start, sets.largest, self.vocab_size)

    def _log_prob(self, hidden: Tensor, token: Tensor) -> Tensor:
        union = self.union(hidden)
        there = torch.isin(token, union.index[: int(union.count)])
        return torch.where(there, super()._log_prob(hidden, token), float("-inf"))


class DeviceScreenLayer(DeviceLayer):
    """The set of each row's cluster: rows sorted by cluster, over weights that lie together for each cluster.

    Rows that the screen's fallback test finds uncertain are listed on the device, and all tokens are scored for them.
    """

    def __init__(self, dense: DeviceLayer, screen: Screen) -> None:
        self.__dict__.update(vars(dense))
        self._start()
        self._sets, self._dense, self._screen = _Sets(screen, self._weight, self._kernels), dense, screen
        part = self._sets.token.long()
        self._packed = self._weight[part].contiguous(), self._bias[part].contiguous()
        residual, test = screen.residual, screen.fallback
        on = self._sets.on
        self._residual = None if residual is None else (on(residual.weight), on(residual.bias))
        self._center = None if test is None else on(test.center)

    def best(self, hidden: Tensor, k: int) -> Best:
        """The k best tokens of each row's set, or of all where the row falls back."""
        scored = self._score(hidden, k)
        if scored.certain is None:
            return scored.best.narrowed(k)
        rows, wide = self._kernels.marked((~scored.certain).to(torch.int8)), scored.best.token.shape[1]
        best = self._kernels.best_tokens(hidden, self._weight, self._bias, wide, rows=rows, into=scored.best)
        return best.narrowed(k)

    def _score(self, hidden: Tensor, k: int) -> _Scored:
        sets, test = self._sets, self._screen.fallback
        cluster = sets.cluster(hidden)
        wide = k if test is None else max(k, test.k)
        best = self._kernels.best_of_sets(hidden, cluster, *self._packed, sets.token, sets.start, sets.largest, wide)
        if self._residual is None:
            return _Scored(cluster.long(), best, None, None)
        weight, bias = (part[cluster.long()] for part in self._residual)
        log_mass = torch.logsumexp(torch.einsum("rmd,rd->rm", weight, hidden.float()) + bias, dim=1)
        whole, certain = replace(best, log_sum=torch.logaddexp(best.log_sum, log_mass)), None
        if test is not None and self._center is not None:
            bar = torch.maximum(best.logit[:, test.k - 1], best.logit[:, 0] - test.margin)
            distance = (hidden.float() - self._center[cluster.long()]).norm(dim=1)
            certain = bar - test.mass_weight * log_mass - test.distance_weight * distance >= test.threshold
            certain &= log_mass - whole.log_sum <= test.max_log_share
        return _Scored(cluster.long(), whole, log_mass, certain)

    def _log_prob(self, hidden: Tensor, token: Tensor) -> Tensor:
        """Of tokens outside the set: their share of the residual mass is what the dense layer's would be."""
        if not self._normalize:
            return super()._log_prob(hidden, token)
        scored = self._score(hidden, 1)
        logit = (hidden.float() * self._weight[token].float()).sum(1) + self._bias[token]
        inside = self._sets.have(scored.cluster, token)
        result = torch.where(inside, logit - scored.best.log_sum, float("-inf"))
        if scored.log_mass is None:
            return result
        for row in (~inside).nonzero()[:, 0].tolist():
            outside = self._log_outside(hidden[row].float(), int(scored.cluster[row]))
            result[row] = logit[row] - outside + scored.log_mass[row] - scored.best.log_sum[row]
        if scored.certain is None:
            return result
        return torch.where(scored.certain, result, logit - self._dense.best(hidden, 1).log_sum)

    def _log_outside(self, hidden: Tensor, cluster: int) -> Tensor:
        """The log-sum-exp of the logits outside a set, for one hidden vector [D]; exact, however little it is."""
        logits = torch.cat([part.float() @ hidden for part in torch.split(self._weight, CHUNK)]) + self._bias
        sets = self._sets
        logits[sets.token[int(sets.start[cluster]) : int(sets.start[cluster + 1])].long()] = float("-inf")
        return torch.logsumexp(logits, dim=0)


@dataclass(frozen=True)
class _Scored:
    """Rows as the screen sees them, before any falls back."""

    cluster: Tensor  # [R] int64
    best: Best  # of the set; the log-sum-exp counts the residual mass
    log_mass: Tensor | None  # [R] log of the residual mass
    certain: Tensor | None  # [R] bool; None where no row falls back


class _Sets:
    """Clusters and token sets of a screen on the device."""

    def __init__(self, screen: Screen, weight: Tensor, kernels: Kernels) -> None:
        self._device, self._best_tokens = weight.device, kernels.best_tokens
        self.token, self.start = self.on(screen.token), self.on(screen.start)
        self.largest = int(np.diff(screen.start).max())
        owner = np.arange(len(screen.start) - 1, dtype=np.int64).repeat(np.diff(screen.start))
        self._vocab_size = len(weight)
        self._members = self.on(owner * len(weight) + screen.token)  # [n] ascending
        self._centroid, self._bias = self.on(screen.weight).to(weight.dtype), self.on(screen.bias)

    def on(self, array: NDArray[Any]) -> Tensor:
        """An array on the device."""
        return torch.from_numpy(np.array(array)).to(self._device)

    def cluster(self, hidden: Tensor) -> Tensor:
        """The cluster [R] int32 of each row: the largest C h - |C|^2 / 2, so the nearest; the lowest on ties."""
        return self._best_tokens(hidden, self._centroid, self._bias, 1).token[:, 0]

    def have(self, cluster: Tensor, token: Tensor) -> Tensor:
        """Whether the set of each cluster [R] has the token [R]."""
        member = cluster * self._vocab_size + token
        place = torch.searchsorted(self._members, member).clamp(max=len(self._members) - 1)
        return self._members[place] == member


def build_layer(name: str, inputs: Callable[[], LayerInputs], dense: DeviceLayer) -> DeviceLayer:
    """The output layer `name` of a model on the device; raises OptionError where there is none of that name."""
    if not find_output_layer(name).on_gpu:
        there = " or ".join(other for other in output_layers() if find_output_layer(other).on_gpu)
        raise OptionError(f"output_layer is {name!r}; on a GPU it must be auto, {there}.")
    layer_inputs = inputs()
    screens, sets = layer_inputs.artifacts.read("screen"), layer_inputs.options.screen_sets
    if screens.per != "all":
        raise OptionError(
            f"output_layer is {name!r}; on a GPU it must be exact for a model with a screen for each {screens.per}."
        )
    screen = screens.by_scope[""]
    if sets == "union":
        return UnionLayer(dense, screen)
    return DeviceScreenLayer(dense, replace(screen, residual=None, fallback=None) if sets == "alone" else screen)
