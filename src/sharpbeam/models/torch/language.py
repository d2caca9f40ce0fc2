"""A decoding run of a language model in PyTorch: one prompt at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from sharpbeam.models.interface import Decoding
from sharpbeam.models.lstm_lm.module import LstmLmModule
from sharpbeam.models.torch.slots import TorchSlots, check_admit, check_requests, check_rows
from sharpbeam.types import Floats, Ids, Request


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
