"""The LSTM language model on the CPU, without PyTorch: the compiled twin of `module.py`, in float32.

A row's hidden vector depends on that row alone, in bytes: not on its neighbours, the order of the calls, or the
kernel table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from quickbeam import _core
from quickbeam.errors import OptionError
from quickbeam.models.lstm_lm.config import LstmLmConfig
from quickbeam.models.lstm_lm.tensors import check_shapes
from quickbeam.models.native_run import NativeDecoding
from quickbeam.types import Floats


class NativeModel:
    """`models.door.Model` on the compiled core; runs in several threads may share one."""

    def __init__(self, config: LstmLmConfig, tensors: Mapping[str, Floats], isa: str = "auto") -> None:
        """Pack `tensors` (float32, C-contiguous, names and shapes as `tensor_shapes`) for the kernel table `isa`.

        The embedding is not copied, so the arrays must not be written to afterwards. Raises ModelError where names or
        shapes do not fit, OptionError where this machine has no table `isa`.
        """
        check_shapes(config, {name: tensor.shape for name, tensor in tensors.items()})
        self.config, self.bos_id, self.eos_id = config, config.bos_id, config.eos_id
        weight = tensors["embedding" if config.tied_output else "output_weight"].view()
        weight.flags.writeable = False  # a tied output matrix is the embedding that the core reads
        self._output = (weight, tensors["output_bias"])
        try:
            self._core = _core.LstmLm(dataclasses.asdict(config), dict(tensors), isa)
        except ValueError as error:
            raise OptionError(str(error)) from None

    @property
    def isa(self) -> str:
        """Name of the kernel table in use."""
        return self._core.isa

    def output(self) -> tuple[Floats, Floats]:
        """Output matrix [V, D] and bias [V], float32."""
        return self._output

    def open(self) -> NativeDecoding:
        """Fresh caches for one decoding run, to be used by one thread at a time."""
        return NativeDecoding(_core.LstmLmDecoding(self._core))
