"""A decoding step of the transformer on the device, over pools of keys and values (SSRU: of recurrent cells)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from sharpbeam.gpu import plain
from sharpbeam.gpu.device import operations
from sharpbeam.gpu.pools import RowPool, SourcePool
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.models.transformer.positions import relative_buckets


class TransformerStep:
    """The module's sublayers, one token at a time; all shapes follow from the number of rows."""

    def __init__(self, module: Any, device: torch.device, dtype: torch.dtype) -> None:
        self._module, self._config, self._operations = module, module.config, operations(device)
        self._device, self._dtype = device, dtype
        c: TransformerConfig = self._config
        self.graphs = not c.decoder_expert_step  # a step of experts asks the host how many rows each has
        self.attends = c.decoder_kind == "attention"
        self.layers, self.inner = c.decoder_layers, c.attention_dim("decoder")
        self._scale = (self.inner // c.decoder_heads) ** -0.5 if c.scaled_attention else 1.0
        self._bias = [self._position_bias(layer) for layer in module.decoder]

    def rows(self) -> RowPool:
        """An empty pool for the rows of a run."""
        if self.attends:
            return RowPool(self.layers, 2 * self.inner, self._device, self._dtype)
        return RowPool(self.layers, self._config.hidden_dim, self._device, torch.float32)

    def sources(self) -> SourcePool:
        """An empty pool for the sources of a run."""
        return SourcePool(self.layers, 2 * self.inner, self._device, self._dtype)

    def step(self, facts: Tensor, rows: RowPool, sources: SourcePool, longest: int, longest_source: int) -> Tensor:
        """Feed one token to each of R rows with `facts` [6, R] int32 (model.FACTS); returns hidden [R, D]."""
        return self._run(facts, rows, sources, longest, longest_source)[0]

    def attend(self, facts: Tensor, rows: RowPool, sources: SourcePool, longest: int, longest_source: int) -> Tensor:
        """The same for the attention to the source of the uppermost layer, the mean over its heads: [R, S] float32."""
        query, pool = self._run(facts, rows, sources, longest, longest_source)[1:]
        line, size, heads = facts[4], facts[5], self._config.decoder_heads
        weights, _ = plain.weigh_cells(query, pool, sources.table, line, size, heads, self._scale, None, longest_source)
        return weights.mean(1)

    def _run(
        self, facts: Tensor, rows: RowPool, sources: SourcePool, longest: int, longest_source: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        token, parent, cell, position, line, size = facts
        x, heads = self._module.embed_at("target", token.long(), position.long()), self._config.decoder_heads
        at, before, count = cell.long(), parent.long(), position + 1
        if self.attends:
            cells = rows.table[before]
            cells.scatter_(1, position.long()[:, None], cell[:, None])
            rows.table[at] = cells
        for i, layer in enumerate(self._module.decoder):
            if self.attends:
                own = layer.attention
                query, new = own.qkv(own.enter(x)).tensor_split([self.inner], dim=-1)
                rows.values[i, at] = new
                context = self._operations.attend_cells(
                    query.contiguous(),
                    *(rows.values[i], rows.table, cell, count, heads, self._scale, self._bias[i], longest),
                )
                x = own.leave(x, own.out(context))
            else:
                after, rows.values[i, at] = layer.ssru(x[:, None], rows.values[i, before])
                x = after[:, 0]
            cross = layer.cross
            query = cross.query(cross.enter(x))
            context = self._operations.attend_cells(
                query, sources.values[i], sources.table, line, size, heads, self._scale, None, longest_source
            )
            x = layer.ffn(cross.leave(x, cross.out(context)))
        return self._module.decoder_norm(x), query, sources.values[self.layers - 1]

    def _position_bias(self, layer: Any) -> Tensor | None:
        """A bias of scores for each head and distance [H, distances] float32; None without relative positions."""
        c = self._config
        if not (c.positions.startswith("relative") and self.attends):
            return None
        shared = c.positions == "relative-shared"
        table = self._module.decoder_position_bias if shared else layer.attention.position_bias
        buckets = relative_buckets(c.relative_buckets, c.relative_distance, both=False)
        bucket = torch.from_numpy(buckets[: c.relative_distance + 1][::-1].copy())  # of distances 0, 1, 2, ...
        bias: Tensor = table.float()[bucket.long().to(self._device)].T.contiguous()
        return bias
