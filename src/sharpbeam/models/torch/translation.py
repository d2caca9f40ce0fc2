"""A decoding run of a translation model in PyTorch: padded batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from sharpbeam.models.interface import Attending
from sharpbeam.models.torch.module import Memory, TranslationModule
from sharpbeam.models.torch.slots import TorchSlots, check_admit, check_requests, check_rows
from sharpbeam.types import Floats, Ids, Request


class TorchTranslation(Attending):
    """`models.interface.Attending` over `TranslationModule`. A caller's mistake raises ValueError and changes
    nothing.
    """

    reason = "the model is computed by PyTorch"

    def __init__(self, module: TranslationModule) -> None:
        self.module = module
        self.sources: dict[int, tuple[Tensor, Tensor]] = {}  # request -> values [S, M] and keys [S, A]
        self.slots = TorchSlots()
        self.padded: tuple[Ids, Memory] | None = None  # the memory of the last step's rows: often the next one's too

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
        return self.slots.put(self.module.split(state))

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
        hidden, new, attention = self.module.step(words, self.module.join(self.slots.get(state)), self._memory(request))
        return hidden.numpy(), attention.numpy(), self.slots.put(self.module.split(new))

    def retain(self, state: Ids) -> None:
        """Free every state but the named ones (repeats allowed)."""
        self.slots.retain(state)

    def evict(self, request: Ids) -> None:
        """Forget the sources of the requests named by index, [n] int32."""
        check_requests(request, self.sources)
        for index in set(request.tolist()):
            del self.sources[index]
        self.padded = None

    def _memory(self, request: Ids) -> Memory:
        """Padded memory of the rows' requests."""
        if self.padded is None or not np.array_equal(self.padded[0], request):
            sources = [self.sources[index] for index in request.tolist()]
            values, keys = [source[0] for source in sources], [source[1] for source in sources]
            mask = _mask([len(v) for v in values])
            memory = Memory(pad_sequence(values, batch_first=True), pad_sequence(keys, batch_first=True), mask)
            self.padded = request.copy(), memory
        return self.padded[1]


def _mask(lengths: Sequence[int]) -> Tensor | None:
    """Mask [n, longest] of the positions that are words, or None if none is padding."""
    if min(lengths) == max(lengths):
        return None
    return torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]
