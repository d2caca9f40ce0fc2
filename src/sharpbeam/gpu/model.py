"""A model on a GPU, by the model interface: PyTorch modules, a step over pools, hidden vectors that stay there."""

from __future__ import annotations

import weakref
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sharpbeam.errors import OptionError
from sharpbeam.gpu.graphs import MOST_ROWS, RowGraph, padded_rows
from sharpbeam.gpu.layers import DeviceLayer
from sharpbeam.gpu.transformer import TransformerStep
from sharpbeam.gpu.vectors import WIDTH, Vectors
from sharpbeam.models.interface import Attending
from sharpbeam.models.registry import Config, architecture_of
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.types import Floats, Ids, Request

FACTS = ("token", "parent", "cell", "position", "line", "size")  # of each row of a step, int32
DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


class DeviceModel:
    """`models.interface.Model` on a device. Runs of several threads may share one."""

    def __init__(
        self, config: Config, tensors: Mapping[str, Floats], device: torch.device, compute_type: str = "float32"
    ) -> None:
        """Copy `tensors` (float32, names and shapes as `tensor_shapes`) to the device as `compute_type`.

        Raises ModelError where they do not fit, OptionError for other models than transformers.
        """
        architecture = architecture_of(config)
        if not isinstance(config, TransformerConfig):
            raise OptionError(f"device: {architecture.name} models are not there on a GPU; leave the option out.")
        architecture.check_shapes(config, {name: tensor.shape for name, tensor in tensors.items()})
        self.config, self.bos_id, self.eos_id = config, config.bos_id, config.eos_id
        self.device, self.dtype = device, DTYPES[compute_type]
        module = architecture.module(config)
        module.load_state_dict({name: torch.tensor(tensor) for name, tensor in tensors.items()})
        self.module: Any = module.requires_grad_(False).eval().to(device, self.dtype)
        for part in self.module.modules():
            if hasattr(part, "router"):
                part.router.float()  # as in training: a choice of experts must not depend on the number type
        weight = tensors[architecture.embedding if config.tied_output else "output_weight"]
        self._output = (weight, tensors["output_bias"])
        self.vectors = Vectors(device, self.dtype, config.hidden_dim)
        self.exact = DeviceLayer(*self._output, self.vectors, device, self.dtype)  # of all tokens
        self.stepper = TransformerStep(self.module, device, self.dtype)
        self.graphs = device.type == "cuda" and self.stepper.graphs  # whether steps are captured
        self._idle: list[_Pools] = []

    def output(self) -> tuple[Floats, Floats]:
        """Output matrix [V, D] and bias [V], float32, on the host."""
        return self._output

    def open(self) -> DeviceDecoding:
        """Fresh caches for one decoding run; their memory and graphs are those of a run that has ended, if any."""
        try:
            pools = self._idle.pop()
        except IndexError:
            pools = _Pools(self.stepper)
        run = DeviceDecoding(self, pools)
        weakref.finalize(run, pools.keep_in, self._idle).atexit = False
        return run


class _Pools:
    """The memory of a decoding run on the device, and the graphs captured over it."""

    def __init__(self, stepper: TransformerStep) -> None:
        self.rows, self.sources = stepper.rows(), stepper.sources()
        self.graphs: dict[int, RowGraph] = {}
        self.positions: Tensor | None = None  # the encodings that the graphs read

    def keep_in(self, idle: list[_Pools]) -> None:
        """Free all cells and sources, for the next run."""
        self.rows.cells.clear()
        self.sources.clear()
        idle.append(self)


class DeviceDecoding(Attending):
    """`models.interface.Attending` on a device. A caller's mistake raises ValueError and changes nothing.

    The hidden vectors that it returns are tickets [R, 3] for those on the device, which an output layer of the same
    model takes (`vectors.Vectors`).
    """

    reason = "the model is computed on a GPU, by PyTorch"

    def __init__(self, model: DeviceModel, pools: _Pools) -> None:
        self._model, self._pools, self._step = model, pools, model.stepper
        self.hidden = torch.empty(0, device=model.device)
        self.steps = 0
        self.number = model.vectors.join(self)

    @torch.inference_mode()
    def admit(self, requests: Sequence[Request]) -> Ids:
        """Encode `requests` in one padded batch; returns the handle of each one's initial state, [B] int32."""
        rows, sources = self._pools.rows, self._pools.sources
        check_admit(requests, sources.line, self._model.config.source_vocab_size)
        if not requests:
            return np.empty(0, np.int32)
        lengths = [len(request.source) for request in requests]
        self._model.module.reach(max(lengths))
        self._forget_graphs(sources.reserve(lengths), rows.reserve(len(requests), 1))
        ids = pad_sequence([torch.from_numpy(r.source.astype(np.int64)) for r in requests], batch_first=True)
        values = self._model.module.encode(ids.to(self._model.device), self._mask(lengths))
        sources.put([request.index for request in requests], values, lengths)
        cells = rows.cells.begin(len(requests))
        rows.values[:, torch.from_numpy(cells).long().to(self._model.device)] = 0.0
        return cells

    @torch.inference_mode()
    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """Feed one token to each of R rows; returns tickets of hidden [R, 3] float32 and the new states [R] int32."""
        facts, cells = self._prepare(request, state, token)
        if not len(request):
            return np.empty((0, WIDTH), np.float32), cells
        on_device = torch.from_numpy(facts).to(self._model.device)
        graphed = self._model.graphs and len(request) <= MOST_ROWS
        pools = self._pools.rows, self._pools.sources
        self.hidden = self._replayed(on_device) if graphed else self._step.step(on_device, *pools, *_longest(facts))
        self.steps += 1
        return self._model.vectors.tickets(self, len(request)), cells

    @torch.inference_mode()
    def attend(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """The same for attention weights [R, S], S the length of the longest source of the rows."""
        facts, cells = self._prepare(request, state, token)
        if not len(request):
            return np.empty((0, 0), np.float32), cells
        on_device = torch.from_numpy(facts).to(self._model.device)
        weights = self._step.attend(on_device, self._pools.rows, self._pools.sources, *_longest(facts))
        attention: Floats = weights.float().cpu().numpy()
        return attention, cells

    def retain(self, state: Ids) -> None:
        """Free every state but the named ones (repeats allowed)."""
        self._pools.rows.cells.retain(state)

    def evict(self, request: Ids) -> None:
        """Forget the sources of the requests named by index, [n] int32."""
        check_requests(request, self._pools.sources.line)
        for index in set(request.tolist()):
            self._pools.sources.drop(index)

    def _prepare(self, request: Ids, state: Ids, token: Ids) -> tuple[Ids, Ids]:
        """The FACTS [6, R] of a step, and the cells of the new states [R]."""
        rows, sources = self._pools.rows, self._pools.sources
        check_rows(request, state, token, self._model.config.target_vocab_size)
        rows.cells.check(state)
        check_requests(request, sources.line)
        longest = int(rows.cells.length[state].max(initial=0)) + 1
        self._model.module.reach(longest)
        self._forget_graphs(rows.reserve(len(request), longest if self._step.attends else 1))
        cells, line = rows.cells.follow(state), sources.lines(request)
        return np.stack([token, state, cells, rows.cells.length[state], line, sources.length[line]]), cells

    def _replayed(self, facts: Tensor) -> Tensor:
        """The same by the graph for so many rows; the kernels read each row's lengths themselves."""
        count, rows, pools = facts.shape[1], padded_rows(facts.shape[1]), self._pools
        if rows not in pools.graphs:
            most = pools.rows.table.shape[1], pools.sources.table.shape[1]
            empty = torch.zeros((len(facts), rows), dtype=torch.int32, device=facts.device)
            empty[-1] = 1  # the source of a row that only fills the step up has one position
            step = self._step.step
            with self._model.module.reaching:  # no other run may move the positions now
                self._forget_graphs()
                pools.graphs[rows] = RowGraph(lambda inputs: step(inputs, pools.rows, pools.sources, *most), empty)
        graph = pools.graphs[rows]
        graph.inputs[:, :count] = facts
        graph.inputs[:-1, count:], graph.inputs[-1:, count:] = 0, 1
        return graph.replay()

    def _forget_graphs(self, *moved: bool) -> None:
        """Graphs read memory at fixed places: without use once it has moved, or another run has moved the positions."""
        positions = self._model.module.sinusoids
        if any(moved) or positions is not self._pools.positions:
            self._pools.graphs.clear()
            self._pools.positions = positions

    def _mask(self, lengths: Sequence[int]) -> Tensor | None:
        """Mask [n, longest] of the positions that are tokens, or None where none is padding."""
        if min(lengths) == max(lengths):
            return None
        mask: NDArray[np.bool_] = np.arange(max(lengths)) < np.array(lengths)[:, None]
        return torch.from_numpy(mask).to(self._model.device)


def _longest(facts: Ids) -> tuple[int, int]:
    """The most tokens of a row, with the one that is fed, and of a source."""
    return int(facts[3].max()) + 1, int(facts[5].max())


def check_admit(requests: Sequence[Request], admitted: Container[int], vocab_size: int) -> None:
    """Raise ValueError for a request that stands twice or is `admitted`, and for an empty or unknown source."""
    seen = set()
    for request in requests:
        if request.index in admitted or request.index in seen:
            raise ValueError(f"request {request.index} is admitted already; evict it first.")
        if len(request.source) < 1:
            raise ValueError(f"request {request.index} has a source of 0 tokens; it must have 1 or more.")
        check_tokens("source token", request.source, vocab_size)
        seen.add(request.index)


def check_requests(request: Ids, admitted: Container[int]) -> None:
    """Raise ValueError unless every request index is among those `admitted`."""
    for index in request.tolist():
        if index not in admitted:
            raise ValueError(f"request is {index}; it must be one that was admitted and not yet evicted.")


def check_rows(request: Ids, state: Ids, token: Ids, vocab_size: int) -> None:
    """Raise ValueError unless the three have one length and the tokens lie in the vocabulary."""
    if not len(request) == len(state) == len(token):
        raise ValueError(f"request, state and token have {len(request)}, {len(state)} and {len(token)} rows.")
    check_tokens("token", token, vocab_size)


def check_tokens(name: str, token: Ids, vocab_size: int) -> None:
    """Raise ValueError unless every token lies in the vocabulary."""
    bad = (token < 0) | (token >= vocab_size)
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"{name} {i} is {token[i]}; it must be between 0 and {vocab_size - 1}.")
