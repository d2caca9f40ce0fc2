"""Search with a PyTorch model of your own, by the interface of src/sharpbeam/models/interface.py.

Every search, schedule and output layer then works with it. The weights here are random; load yours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import torch

from sharpbeam.decoding.loop import decode
from sharpbeam.models.interface import Decoding
from sharpbeam.options.decode import ScheduleOptions, SearchOptions
from sharpbeam.output_layers.exact import ExactLayer
from sharpbeam.scheduling.plan import Plan
from sharpbeam.search.beam import BeamSearch
from sharpbeam.types import Floats, Ids, Request


class OwnModel(torch.nn.Module):
    """A GRU that reads and a GRU that writes; a model ends at the hidden vector."""

    bos_id, eos_id, vocab_size = 1, 2, 12

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(self.vocab_size, width)
        self.reader = torch.nn.GRU(width, width)
        self.writer = torch.nn.GRUCell(width, width)
        self.out = torch.nn.Linear(width, self.vocab_size)

    def output(self) -> tuple[Floats, Floats]:
        """The output matrix [V, D] and its bias [V]."""
        return self.out.weight.detach().numpy(), self.out.bias.detach().numpy()

    def open(self) -> OwnDecoding:
        """Fresh states for one decoding run."""
        return OwnDecoding(self)


class OwnDecoding(Decoding):
    """The states of one run, by handle."""

    def __init__(self, model: OwnModel) -> None:
        self.model, self.states, self.next = model, dict[int, torch.Tensor](), 0

    def keep(self, states: Iterable[torch.Tensor]) -> Ids:
        """Store states; returns their handles."""
        first = self.next
        for state in states:
            self.states[self.next] = state
            self.next += 1
        return np.arange(first, self.next, dtype=np.int32)

    @torch.inference_mode()
    def admit(self, requests: Sequence[Request]) -> Ids:
        """Read the sources."""
        return self.keep(self.model.reader(self.model.embed(torch.tensor(r.source)))[1][0] for r in requests)

    @torch.inference_mode()
    def step(self, request: Ids, state: Ids, token: Ids) -> tuple[Floats, Ids]:
        """One token for each row: hidden vectors [R, D] and the handles of the new states [R]."""
        old = torch.stack([self.states[handle] for handle in state.tolist()])
        new = self.model.writer(self.model.embed(torch.tensor(token)), old)
        return new.numpy(), self.keep(new)

    def retain(self, state: Ids) -> None:
        """Free every state but these."""
        self.states = {handle: self.states[handle] for handle in set(state.tolist())}

    def evict(self, request: Ids) -> None:
        """This model keeps nothing of a request but its states."""


def search(model: OwnModel, sources: Sequence[Sequence[int]], beam_size: int = 4) -> dict[int, tuple[int, ...]]:
    """The best answer to each source, by its index."""
    requests = [Request(i, np.array([*source, model.eos_id], np.int32)) for i, source in enumerate(sources)]
    beam = BeamSearch(
        SearchOptions(beam_size=beam_size, max_length=10, early_stopping="proven"),
        model.bos_id,
        model.eos_id,
        model.vocab_size,
    )
    schedule = Plan(requests, ScheduleOptions(schedule="stream"), beam_size, threads=1).schedule()
    output_layer = ExactLayer.build(*model.output())
    return {index: best.tokens for index, (best, *_) in decode(model.open(), output_layer, beam, schedule)}


if __name__ == "__main__":
    torch.manual_seed(1)
    for index, tokens in sorted(search(OwnModel(), [[3, 4, 5], [6, 7], [8, 9, 10, 11]]).items()):
        print(index, *tokens)
