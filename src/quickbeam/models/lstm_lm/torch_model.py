"""The LSTM language model in PyTorch behind the models' door: float32, one prompt at a time, the twin's slow truth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from quickbeam.models.lstm_lm.config import LstmLmConfig
from quickbeam.models.lstm_lm.module import LstmLmModule
from quickbeam.models.lstm_lm.tensors import check_shapes
from quickbeam.models.torch_slots import TorchSlots, check_admit, check_requests, check_rows
from quickbeam.types import Floats, Ids, Request


class TorchDecoding:
    """`models.door.Decoding` over `LstmLmModule`. A caller's mistake raises ValueError and changes nothing."""

    def __init__(self, module: LstmLmModule) -> None:
        self.module = module
        self.requests: set[int] = set()
        self.slots = TorchSlots(2, module.config.layers, module.config.hidden_dim)  # outputs and cells

    @torch.inference_mode()
    def admit(self, requests: Sequence[Request]) -> Ids:
        """Feed the whole prompts of `requests`; returns the handle of the state behind each one, [B] int32."""
        check_admit(requests, self.requests, self.module.config.vocab_size)
        states = []
        for request in requests:
            _, state = self.module(torch.from_numpy(request.source.astype(np.int64))[None], self.module.begin(1))
            states.append(torch.cat(state, dim=1))  # [L, 2, D]
        self.requests |= {request.index for request in requests}
        return self.slots.put(torch.stack(states).transpose(1, 2)) if states else np.empty(0, np.int32)

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
        old = self.slots.get(state)  # [R, 2, L, D]
        outputs, cells = old.permute(1, 2, 0, 3).contiguous()
        _, following = self.module(ids, (outputs, cells))
        new = torch.where((ids == config.bos_id)[:, :, None, None], old, torch.stack(following).permute(2, 0, 1, 3))
        return self._hidden(new).numpy(), self.slots.put(new)

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
    """`models.door.Model` over `LstmLmModule`."""

    def __init__(self, config: LstmLmConfig, tensors: Mapping[str, Floats]) -> None:
        """Copy `tensors` (float32, names and shapes as `tensor_shapes`); ModelError where they do not fit."""
        check_shapes(config, {name: tensor.shape for name, tensor in tensors.items()})
        self.config, self.bos_id, self.eos_id = config, config.bos_id, config.eos_id
        self.module = LstmLmModule(config)
        self.module.load_state_dict({name: torch.tensor(tensor) for name, tensor in tensors.items()})
        self.module.requires_grad_(False).eval()

    def output(self) -> tuple[Floats, Floats]:
        """Output matrix [V, D] and bias [V], float32."""
        weight, bias = self.module.output()
        return weight.numpy(), bias.numpy()

    def open(self) -> TorchDecoding:
        """Fresh caches for one decoding run."""
        return TorchDecoding(self.module)
