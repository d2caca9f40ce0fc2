"""A decoding step of the transformer on the device, over pools of keys and values (SSRU: of recurrent cells)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sharpbeam.gpu import plain
from sharpbeam.gpu.device import Kernels
from sharpbeam.gpu.pools import RowPool, SourcePool
from sharpbeam.models.transformer.config import TransformerConfig
from sharpbeam.models.transformer.positions import position_table, relative_buckets

GIVEN = ("token", "parent", "cell", "position", "line", "size")  # what a step is told of each row, int32


class TransformerStep:
    """The module's layers, one token at a time; all shapes follow from the number of rows."""

    def __init__(self, module: Any, device: torch.device, dtype: torch.dtype) -> None:
        self._module, self._config, self._kernels = module, module.config, Kernels(device)
        self._device, self._dtype = device, dtype
        c: TransformerConfig = self._config
        self.graphs = not c.decoder_expert_step  # a step of experts asks the host how many rows each has
        self.attends = c.decoder_kind == "attention"
        self.layers, self.inner = c.decoder_layers, c.attention_dim("decoder")
        self._scale = (self.inner // c.decoder_heads) ** -0.5 if c.scaled_attention else 1.0
        self._positions = torch.empty((0, c.hidden_dim), dtype=dtype, device=device)
        self._bias = [self._position_bias(layer) for layer in module.decoder]

    def rows(self) -> RowPool:
        """An empty pool for the rows of a run."""
        if self.attends:
            return RowPool(self.layers, 2 * self.inner, self._device, self._dtype)
        return RowPool(self.layers, self._config.hidden_dim, self._device, torch.float32)

    def sources(self) -> SourcePool:
        """An empty pool for the sources of a run."""
        return SourcePool(self.layers, 2 * self.inner, self._device, self._dtype)

    def encode(self, source: Tensor, mask: Tensor | None) -> tuple[Tensor, None]:
        """Source ids [B, S] and mask [B, S] -> keys and values of all layers [layers, B, S, 2 A]."""
        memory, _ = self._module.encode(source, mask)
        pairs = (memory.keys.chunk(self.layers, -1), memory.values.chunk(self.layers, -1))
        return torch.stack([torch.cat(pair, dim=-1) for pair in zip(*pairs, strict=True)]), None

    def reach(self, positions: int) -> bool:
        """Have encodings of so many positions; returns whether the tensor is a new one."""
        if not self._config.positions.startswith("sinusoidal") or positions <= len(self._positions):
            return False
        table = position_table(self._config, max(64, 2 * positions))
        self._positions = torch.from_numpy(table).to(self._device, self._dtype)
        return True

    def step(self, given: Tensor, rows: RowPool, sources: SourcePool, longest: int, longest_source: int) -> Tensor:
        """Feed one token to each of R rows, whose facts are `given` [6, R] int32 (GIVEN); returns hidden [R, D]."""
        return self._run(given, rows, sources, longest, longest_source)[0]

    def attend(self, given: Tensor, rows: RowPool, sources: SourcePool, longest: int, longest_source: int) -> Tensor:
        """The same for the attention to the source of the uppermost layer, the mean over its heads: [R, S] float32."""
        query, pool = self._run(given, rows, sources, longest, longest_source)[1:]
        line, size, heads = given[4], given[5], self._config.decoder_heads
        return plain.weights_of_cells(query, pool, sources.table, line, size, heads, self._scale, longest_source)

    def _run(
        self, given: Tensor, rows: RowPool, sources: SourcePool, longest: int, longest_source: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        token, parent, cell, position, line, size = given
        x, heads = self._embed(token.long(), position.long()), self._config.decoder_heads
        at, count = cell.long(), position + 1
        if self.attends:
            names = rows.table[parent.long()]
            names.scatter_(1, position.long()[:, None], cell[:, None])
            rows.table[at] = names
        for i, layer in enumerate(self._module.decoder):
            if self.attends:
                own = layer.attention
                query, new = own.qkv(own.enter(x)).tensor_split([self.inner], dim=-1)
                rows.values[i, at] = new
                bias = self._bias[i]
                found = self._kernels.attend_cells(
                    query.contiguous(), rows.values[i], rows.table, cell, count, heads, self._scale, bias, longest
                )
                x = own.leave(x, own.out(found))
            else:
                x = self._recur(layer.ssru, x, rows.values[i], parent.long(), at)
            cross = layer.cross
            query = cross.query(cross.enter(x))
            found = self._kernels.attend_cells(
                query, sources.values[i], sources.table, line, size, heads, self._scale, None, longest_source
            )
            x = layer.ffn(cross.leave(x, cross.out(found)))
        return self._module.decoder_norm(x), query, sources.values[self.layers - 1]

    def _recur(self, unit: Any, x: Tensor, cells: Tensor, parent: Tensor, at: Tensor) -> Tensor:
        """Marian's recurrent unit; its cells [cells, D] stay float32."""
        new, forget = unit.cell(unit.enter(x)).float().chunk(2, dim=-1)
        cell = new + torch.sigmoid(forget) * (cells[parent] - new)
        cells[at] = cell
        left: Tensor = unit.leave(x, unit.out(torch.relu(cell).to(x.dtype)))
        return left

    def _embed(self, token: Tensor, position: Tensor) -> Tensor:
        """Ids [R] at positions [R] -> [R, D]."""
        c, module = self._config, self._module
        x = F.embedding(token, module.target_embedding)
        if c.scaled_embedding:
            x = x * c.hidden_dim**0.5
        if c.positions == "learned":
            x = x + F.embedding(position, module.target_positions)
        elif c.positions.startswith("sinusoidal"):
            x = x + F.embedding(position, self._positions)
        if c.embedding_norm:
            x = module.target_embedding_norm(x)
        return x

    def _position_bias(self, layer: nn.Module) -> Tensor | None:
        """A bias of scores for each head and distance [H, distances] float32; None without relative positions."""
        c = self._config
        if not (c.positions.startswith("relative") and self.attends):
            return None
        own: Any = layer
        table = self._module.decoder_position_bias if c.positions == "relative-shared" else own.attention.position_bias
        buckets = relative_buckets(c.relative_buckets, c.relative_distance, both=False)
        bucket = torch.from_numpy(buckets[: c.relative_distance + 1][::-1].copy())  # of distances 0, 1, 2, ...
        bias: Tensor = table.float()[bucket.long().to(self._device)].T.contiguous()
        return bias
