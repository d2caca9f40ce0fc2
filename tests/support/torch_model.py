"""The models in plain PyTorch, by the model interface: the reference that the native ones are compared with."""

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
from sharpbeam.models.interface import Attending, Decoding
from sharpbeam.models.lstm_lm.module import LstmLmModule
from sharpbeam.models.registry import Config, architecture_of
from sharpbeam.models.torch.checks import check_admit, check_requests, check_rows
from sharpbeam.models.torch.module import EncodedSources, TranslationModule
from sharpbeam.models.transformer.module import Past
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
    """`models.interface.Attending` over `TranslationModule`. A caller's mistake raises ValueError and changes
    nothing.
    """

    reason = "the model is computed by PyTorch"

    def __init__(self, module: TranslationModule) -> None:
        self.module = module
        self.sources: dict[int, tuple[Tensor, Tensor]] = {}  # request -> values [S, M] and keys [S, A]
        self.slots = TorchSlots()
        self.padded: tuple[Ids, EncodedSources] | None = None  # of the last step's rows: often the next one's too

    @torch.inference_mode()
    def admit(self, requests: Sequence[Request]) -> Ids:
        """Encode `requests` in one padded batch; returns the handle of each one's initial state, [B] int32."""
        check_admit(requests, self.sources, self.module.config.source_vocab_size)
        if not requests:
            return np.empty(0, np.int32)
        lengths = [len(request.source) for request in requests]
        ids = pad_sequence([torch.from_numpy(r.source.astype(np.int64)) for r in requests], batch_first=True)
        memory, state = self.module.encode(ids, _mask(lengths))
        for i, request in enumerate(requests):
            self.sources[request.index] = memory.values[i, : lengths[i]], memory.keys[i, : lengths[i]]
        self.padded = None
        return self.slots.put(_rows(state))

    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """Feed one token to each of R rows; returns hidden [R, D] float32 and the new states' handles [R] int32."""
        hidden, _, handles = self._step(request, state, token)
        return hidden, handles

    def attend(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """Feed one token to each of R rows; returns attention weights [R, S] and the new states' handles [R] int32."""
        _, attention, handles = self._step(request, state, token)
        return attention, handles

    @torch.inference_mode()
    def _step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Floats, Ids]:
        """Hidden vectors, attention weights and handles."""
        check_rows(request, state, token, self.module.config.target_vocab_size)
        self.slots.check(state)
        check_requests(request, self.sources)
        if not len(request):
            none = np.empty((0, 0), np.float32)
            return np.empty((0, self.module.config.hidden_dim), np.float32), none, np.empty(0, np.int32)
        words = torch.from_numpy(token.astype(np.int64))
        hidden, new, attention = self.module.step(words, _joined(self.slots.get(state)), self._memory(request))
        return hidden.numpy(), attention.numpy(), self.slots.put(_rows(new))

    def retain(self, state: Ids) -> None:
        """Free every state but the named ones (repeats allowed)."""
        self.slots.retain(state)

    def evict(self, request: Ids) -> None:
        """Forget the sources of the requests named by index, [n] int32."""
        check_requests(request, self.sources)
        for index in set(request.tolist()):
            del self.sources[index]
        self.padded = None

    def _memory(self, request: Ids) -> EncodedSources:
        """Padded memory of the rows' requests."""
        if self.padded is None or not np.array_equal(self.padded[0], request):
            sources = [self.sources[index] for index in request.tolist()]
            values, keys = [source[0] for source in sources], [source[1] for source in sources]
            mask = _mask([len(v) for v in values])
            memory = EncodedSources(pad_sequence(values, batch_first=True), pad_sequence(keys, batch_first=True), mask)
            self.padded = request.copy(), memory
        return self.padded[1]


def _mask(lengths: Sequence[int]) -> Tensor | None:
    """Mask [n, longest] of the positions that are words, or None where none is padding."""
    if min(lengths) == max(lengths):
        return None
    return torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]


def _joined(states: Sequence[Any]) -> Any:
    """The states of a batch, of those of single rows as `_rows` gives them."""
    if not isinstance(states[0], Past):
        return torch.stack(list(states))
    length, values = torch.cat([state.length for state in states]), [state.values for state in states]
    is_recurrent = values[0].dim() == 3
    return Past(length, torch.cat(values) if is_recurrent else pad_sequence([v[0] for v in values], batch_first=True))


def _rows(state: Any) -> list[Any]:
    """The states of a batch, row by row, without padding."""
    if not isinstance(state, Past):
        return list(state)
    is_recurrent = state.values.dim() == 3
    return [
        Past(state.length[i : i + 1], state.values[i : i + 1] if is_recurrent else state.values[i : i + 1, :size])
        for i, size in enumerate(state.length.tolist())
    ]


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


DECODINGS: dict[str, Any] = {"translation": TorchTranslation, "language": TorchLanguage}


class TorchModel:
    """`models.interface.Model` over an architecture's PyTorch module."""

    def __init__(self, config: Config, tensors: Mapping[str, Floats]) -> None:
        """Copy `tensors` (float32, names and shapes as `tensor_shapes`); ModelError where they do not fit."""
        architecture = architecture_of(config)
        architecture.check_shapes(config, {name: tensor.shape for name, tensor in tensors.items()})
        self.config, self.bos_id, self.eos_id = config, config.bos_id, config.eos_id
        self.module = architecture.module(config)
        self.module.load_state_dict({name: torch.tensor(tensor) for name, tensor in tensors.items()})
        self.module.requires_grad_(False).eval()
        self._decoding = DECODINGS[architecture.task]

    def output(self) -> tuple[Floats, Floats]:
        """Output matrix [V, D] and bias [V], float32."""
        weight, bias = self.module.output()
        return weight.numpy(), bias.numpy()

    def open(self) -> TorchTranslation | TorchLanguage:
        """Fresh caches for one decoding run."""
        run: TorchTranslation | TorchLanguage = self._decoding(self.module)
        return run
