"""A decoding step of the recurrent families on the device: states in a pool, sources gathered through a table."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sharpbeam.gpu.pools import RowPool, SourcePool
from sharpbeam.models.recurrent import EncodedSources


class RecurrentStep:
    """`step` of a `models.recurrent.RecurrentModule`: GRU and LSTM models, in float32."""

    graphs = False
    """Whether a step can be captured as a CUDA graph: the width of the sources changes."""

    def __init__(self, module: Any, device: torch.device) -> None:
        self._module, self._device = module, device
        with torch.inference_mode():
            memory, _ = module.encode(torch.zeros((1, 1), dtype=torch.int64, device=device), None)
        self._widths = [memory.values.shape[-1], memory.keys.shape[-1]]

    def rows(self) -> RowPool:
        """An empty pool for the rows of a run."""
        return RowPool(1, self._module.state_dim, self._device, torch.float32)

    def sources(self) -> SourcePool:
        """An empty pool for the sources of a run."""
        return SourcePool(1, sum(self._widths), self._device, torch.float32)

    def encode(self, source: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        """Source ids [B, S] and mask [B, S] -> values and keys [1, B, S, M + A], initial states [B, width]."""
        memory, state = self._module.encode(source, mask)
        return torch.cat([memory.values, memory.keys], dim=-1)[None], state

    def reach(self, positions: int) -> bool:
        """Nothing depends on positions."""
        return False

    def step(self, facts: Tensor, rows: RowPool, sources: SourcePool, longest: int, longest_source: int) -> Tensor:
        """Feed one token to each of R rows, with `facts` [6, R] int32 (model.FACTS); returns hidden [R, D]."""
        return self._run(facts, rows, sources, longest_source)[0]

    def attend(self, facts: Tensor, rows: RowPool, sources: SourcePool, longest: int, longest_source: int) -> Tensor:
        """The same for the attention to the source, [R, S] float32."""
        return self._run(facts, rows, sources, longest_source)[1]

    def _run(self, facts: Tensor, rows: RowPool, sources: SourcePool, longest: int) -> tuple[Tensor, Tensor]:
        token, parent, cell, _, line, size = facts
        there = torch.arange(longest, device=self._device)[None] < size[:, None]
        cells = torch.where(there, sources.table[line.long(), :longest], 0)
        values, keys = torch.split(sources.values[0, cells.long()], self._widths, dim=-1)
        state = rows.values[0, parent.long()]
        hidden, following, weights = self._module.step(token.long(), state, EncodedSources(values, keys, there))
        rows.values[0, cell.long()] = following
        return hidden, weights
