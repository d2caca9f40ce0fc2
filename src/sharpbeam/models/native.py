"""A model on the CPU, without PyTorch: the compiled twin of its `module.py`; the same for every one.

A row's hidden vector depends on that row alone, in bytes: not on its neighbors, the order of the calls, or the
kernel table. Sources are kept ragged, nothing is padded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sharpbeam import _core
from sharpbeam.errors import OptionError
from sharpbeam.models.config import SCALE
from sharpbeam.models.registry import Config, architecture_of
from sharpbeam.options.machine import MachineOptions
from sharpbeam.types import Floats, Ids, Request

# The calls are described in `models.interface.Decoding`.
CoreRun = _core.GruDecoding | _core.LstmAttentionDecoding | _core.TransformerDecoding | _core.LstmLmDecoding


class NativeDecoding:
    """`models.interface.Decoding` on the compiled core, and `Attending` if the model has attention.

    A caller's mistake raises ValueError and changes nothing.
    """

    native: _core.ModelRun | None
    reason: str = ""

    def __init__(self, run: CoreRun) -> None:
        self.native = self._run = run
        self.step, self.retain, self.evict = run.step, run.retain, run.evict
        if not isinstance(run, _core.LstmLmDecoding):
            self.attend = run.attend

    def admit(self, requests: Sequence[Request]) -> Ids:
        """Encode `requests` together; returns the handle of each one's initial state, [B] int32."""
        index = np.array([request.index for request in requests], dtype=np.int32)
        length = np.array([len(request.source) for request in requests], dtype=np.int32)
        token = np.concatenate([np.empty(0, np.int32), *(request.source for request in requests)])
        return self._run.admit(index, token, length)


class NativeModel:
    """`models.interface.Model` on the compiled core; runs in several threads may share one."""

    def __init__(
        self,
        config: Config,
        tensors: Mapping[str, NDArray[Any]],
        isa: str = "auto",
        compute_type: str = "float32",
        **shortcuts: Any,
    ) -> None:
        """Pack `tensors` (float32, C-contiguous, names and shapes as of the config) for the kernel table `isa`.

        A matrix may be float16, or int8 with a scale for each row as NAME.scale: it is widened while it is packed.

        Products are computed in `compute_type` (csrc/linear/linear.h); all else is float32. The `shortcuts` spare
        products of recurrent models (MachineOptions); that of attention changes last bits. Embedding tables are not
        copied, so the arrays must not be written to afterwards. Raises ModelError if names or shapes do not fit,
        OptionError if this machine has no table `isa`, or `compute_type` is none.
        """
        self._architecture = architecture_of(config)
        scales = {name + SCALE for name, tensor in tensors.items() if tensor.dtype == np.int8}
        shapes = {name: tensor.shape for name, tensor in tensors.items() if name not in scales}
        self._architecture.check_shapes(config, shapes)
        self.config, self.bos_id, self.eos_id = config, config.bos_id, config.eos_id
        weight = tensors[self._architecture.embedding if config.tied_output else "output_weight"].view()
        weight.flags.writeable = False  # a tied output matrix is the embedding table that the core reads
        self._output = (weight, tensors["output_bias"])
        options = {"compute_type": compute_type} | MachineOptions(**shortcuts).shortcuts()
        try:
            self._core = self._architecture.core(dataclasses.asdict(config), dict(tensors), isa, options)
        except ValueError as error:
            raise OptionError(str(error)) from None

    def output(self) -> tuple[Floats, Floats]:
        """Output matrix [V, D] and bias [V], float32."""
        return self._output

    def open(self) -> NativeDecoding:
        """Fresh caches for one decoding run, to be used by one thread at a time."""
        return NativeDecoding(self._architecture.core_run(self._core))
