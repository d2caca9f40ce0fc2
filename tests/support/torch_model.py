"""The models in PyTorch, by the model interface: the reference that the native ones are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sharpbeam import MachineOptions, Translator
from sharpbeam.decoding import loading
from sharpbeam.gpu.model import DeviceModel, check_admit, check_requests, check_rows
from sharpbeam.models.interface import Attending, Decoding
from sharpbeam.models.lstm_lm.module import LstmLmModule
from sharpbeam.models.module import EncodedSources, RecurrentModule
from sharpbeam.models.registry import Config, architecture_of
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.storage.model_folder import read_tensors
from sharpbeam.types import Floats, Ids, Request


def torch_translator(folder: Path, kind: Any = Translator) -> Any:
    """A Translator (or Generator, Scorer) whose model is computed by PyTorch, in float32; the output layer is ours."""

    def model(config: Config, *_: Any, **__: Any) -> TorchModel:
        return TorchModel(config, read_tensors(folder, config))

    with patch.object(loading, "NativeModel", model):
        return kind(folder, machine=MachineOptions(exact=True, compute_type="float32"))


class TorchSlots:
    """States of one decoding run, of any kind; a handle is the number of a state's slot."""

    def __init__(self) -> None:
        self._states: list[Any] = []
        self._used = np.zeros(0, dtype=np.bool_)  # [slots]

    def put(self, states: Sequence[Any]) -> Ids:
        """Put the states of n rows into free slots, the lowest first; returns the slots [n]."""
        missing = len(states) - int((~self._used).sum())
        if missing > 0:
            self._states += [None] * missing
            self._used = np.concatenate([self._used, np.zeros(missing, dtype=np.bool_)])
        slots: NDArray[np.intp] = np.flatnonzero(~self._used)[: len(states)]
        for slot, state in zip(slots.tolist(), states, strict=True):
            self._states[slot] = state
        self._used[slots] = True
        return slots.astype(np.int32)

    def get(self, state: Ids) -> list[Any]:
        """The states of handles [n] that `check` has passed."""
        return [self._states[slot] for slot in state.tolist()]

    def retain(self, state: Ids) -> None:
        """Free every state but the named ones (repeats allowed)."""
        self.check(state)
        self._used[:] = False
        self._used[state] = True
        for slot in np.flatnonzero(~self._used).tolist():
            self._states[slot] = None

    def check(self, state: Ids) -> None:
        """Raise ValueError unless every handle is in use."""
        in_range = (state >= 0) & (state < len(self._used))
        in_range[in_range] = self._used[state[in_range]]
        if not in_range.all():
            i = int(np.argmin(in_range))
            raise ValueError(f"state {i} is {state[i]}; it must be a handle from admit or step that retain has kept.")


class TorchTranslation(Attending):
    """A run of the form for GPUs on the CPU, with its hidden vectors brought to the host."""

    reason = "the model is computed by PyTorch"

    def __init__(self, model: DeviceModel) -> None:
        self._model, self._run = model, model.open()
        self.admit, self.attend, self.retain, self.evict = (
            self._run.admit, self._run.attend, self._run.retain, self._run.evict
        )  # fmt: skip

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """Feed one token to each of R rows; returns hidden [R, D] float32 and the new states' handles [R] int32."""
        tickets, states = self._run.step(request, state, token)
        hidden = self._model.vectors.take(tickets).numpy()
        return hidden.reshape(len(request), self._model.config.hidden_dim), states


class TorchRecurrent(Attending):
    """A run of a GRU or LSTM translation model. A caller's mistake raises ValueError and changes nothing."""

    reason = "the model is computed by PyTorch"

    def __init__(self, module: RecurrentModule) -> None:
        self.module = module
        self.sources: dict[int, tuple[Tensor, Tensor]] = {}  # values [S, M] and keys [S, A] by request
        self.slots = TorchSlots()  # of states [state_dim]

    @torch.inference_mode()
    def admit(self, requests: Sequence[Request]) -> Ids:
        """Encode `requests`; returns the handle of each one's initial state, [B] int32."""
        check_admit(requests, self.sources, self.module.config.source_vocab_size)
        states = []
        for request in requests:
            memory, state = self.module.encode(torch.from_numpy(request.source.astype(np.int64))[None], None)
            self.sources[request.index] = memory.values[0], memory.keys[0]
            states.append(state[0])
        return self.slots.put(states)

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """Feed one token to each of R rows; returns hidden [R, D] float32 and the new states' handles [R] int32."""
        hidden, _, states = self._run(request, state, token)
        return hidden, states

    def attend(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """The same for attention weights [R, S], S the length of the longest source of the rows."""
        _, weights, states = self._run(request, state, token)
        return weights, states

    @torch.inference_mode()
    def _run(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Floats, Ids]:
        check_rows(request, state, token, self.module.config.target_vocab_size)
        self.slots.check(state)
        check_requests(request, self.sources)
        if not len(request):
            width = self.module.config.hidden_dim
            return np.empty((0, width), np.float32), np.empty((0, 0), np.float32), np.empty(0, np.int32)
        own = [self.sources[index] for index in request.tolist()]
        values, keys = (pad_sequence(list(part), batch_first=True) for part in zip(*own, strict=True))
        mask = torch.arange(values.shape[1])[None] < torch.tensor([len(each) for each, _ in own])[:, None]
        states, ids = torch.stack(self.slots.get(state)), torch.from_numpy(token.astype(np.int64))
        hidden, following, weights = self.module.read(ids[:, None], states, EncodedSources(values, keys, mask))
        return hidden[:, 0].contiguous().numpy(), weights.contiguous().numpy(), self.slots.put(list(following))

    def retain(self, state: Ids) -> None:
        """Free every state but the named ones (repeats allowed)."""
        self.slots.retain(state)

    def evict(self, request: Ids) -> None:
        """Forget the requests named by index, [n] int32."""
        check_requests(request, self.sources)
        for index in set(request.tolist()):
            del self.sources[index]


class TorchLanguage(Decoding):
    """`models.interface.Decoding` over `LstmLmModule`. A caller's mistake raises ValueError and changes nothing."""

    reason = "the model is computed by PyTorch"

    def __init__(self, module: LstmLmModule) -> None:
        self.module = module
        self.requests: set[int] = set()
        self.slots = TorchSlots()  # of outputs and cells [2, L, D]

    @torch.inference_mode()
    def admit(self, requests: Sequence[Request]) -> Ids:
        """Feed the whole prompts of `requests`; returns the handle of the state after each one, [B] int32."""
        check_admit(requests, self.requests, self.module.config.vocab_size)
        states = []
        for request in requests:
            _, state = self.module(torch.from_numpy(request.source.astype(np.int64))[None], self.module.begin(1))
            states.append(torch.cat(state, dim=1).transpose(0, 1))
        self.requests |= {request.index for request in requests}
        return self.slots.put(states)

    @torch.inference_mode()
    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """Feed one token to each of R rows; returns hidden [R, D] float32 and the new states' handles [R] int32.

        bos feeds nothing: the row's new state is its old one.
        """
        config = self.module.config
        check_rows(request, state, token, config.vocab_size)
        self.slots.check(state)
        check_requests(request, self.requests)
        if not len(request):
            return np.empty((0, config.hidden_dim), np.float32), np.empty(0, np.int32)
        ids = torch.from_numpy(token.astype(np.int64))[:, None]
        old = torch.stack(self.slots.get(state))  # [R, 2, L, D]
        outputs, cells = old.permute(1, 2, 0, 3).contiguous()
        _, following = self.module(ids, (outputs, cells))
        new = torch.where((ids == config.bos_id)[:, :, None, None], old, torch.stack(following).permute(2, 0, 1, 3))
        return self._hidden(new).numpy(), self.slots.put(list(new))

    def retain(self, state: Ids) -> None:
        """Free every state but the named ones (repeats allowed)."""
        self.slots.retain(state)

    def evict(self, request: Ids) -> None:
        """Forget the requests named by index, [n] int32."""
        check_requests(request, self.requests)
        self.requests -= set(request.tolist())

    @staticmethod
    def _hidden(states: Tensor) -> Tensor:
        """The hidden vectors [R, D] of states [R, 2, L, D]: the outputs of the uppermost layer."""
        return states[:, 0, -1].contiguous()


class TorchModel:
    """`models.interface.Model` over an architecture's PyTorch module."""

    def __init__(self, config: Config, tensors: Mapping[str, Floats]) -> None:
        """Copy `tensors` (float32, names and shapes as `tensor_shapes`); ModelError where they do not fit."""
        architecture = architecture_of(config)
        self.config, self.bos_id, self.eos_id = config, config.bos_id, config.eos_id
        self._translation = None
        if isinstance(config, TransformerConfig):
            self._translation = DeviceModel(config, tensors, torch.device("cpu"))
            self.module = self._translation.module
            return
        architecture.check_shapes(config, {name: tensor.shape for name, tensor in tensors.items()})
        self.module = architecture.module(config)
        self.module.load_state_dict({name: torch.tensor(tensor) for name, tensor in tensors.items()})
        self.module.requires_grad_(False).eval()

    def output(self) -> tuple[Floats, Floats]:
        """Output matrix [V, D] and bias [V], float32."""
        weight, bias = self.module.output()
        return weight.numpy(), bias.numpy()

    def open(self) -> TorchTranslation | TorchRecurrent | TorchLanguage:
        """Fresh caches for one decoding run."""
        if self._translation is not None:
            return TorchTranslation(self._translation)
        return TorchLanguage(self.module) if isinstance(self.module, LstmLmModule) else TorchRecurrent(self.module)
