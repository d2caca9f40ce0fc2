"""The interface of output layers: hidden vectors in, candidates out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from sharpbeam import _core
from sharpbeam.errors import ModelError
from sharpbeam.types import Floats, Ids, Languages, Request, TopK


class OutputLayerRun(Protocol):
    """An output layer in one decoding run. `hidden` is [R, D] float32; `request` [R] names the request of each row.

    A row's answer depends on that row and on the source and the languages of its request only. Inherit from it to get
    the defaults of `native` and `reason`.
    """

    native: _core.LayerRun | None = None
    """The same run in the compiled core, for searches that take whole steps there; None where there is none."""
    reason: str = "the output layer is computed in Python"
    """Why `native` is None, for `--stats`; empty where it is not."""

    def admit(self, requests: Sequence[Request]) -> None:
        """Prepare for rows of `requests`; by default nothing is kept of them."""
        return None

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """The k best tokens of each row with their log probabilities; 1 <= k <= V, ties by lower id.

        A row with fewer than k candidates is filled up with token 0 at -inf.
        """

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        """Log probability of the given token of each row, [R] float32: for forced scores."""

    def evict(self, request: Ids) -> None:
        """Forget the requests named by index, [n] int32."""
        return None


class OutputLayer(Protocol):
    """An output layer: weights that any number of decoding runs share. Inherit from it to get the default."""

    vocab_size: int

    @property
    def fallback_share(self) -> float | None:
        """Share of the rows so far that fell back to a layer that scores all tokens; None where none can."""
        return None

    def open(self) -> OutputLayerRun:
        """The layer in a new decoding run."""

    def check_languages(self, languages: Languages) -> None:
        """Raise OptionError if the layer has nothing for `languages`; most layers serve all."""
        return None


@runtime_checkable
class Normalizing(Protocol):
    """An output layer whose normalizer can be left out."""

    def unnormalized(self) -> OutputLayer:
        """The same layer with logits for log probabilities, as self-normalized models allow (CUBE eq. 12)."""


@runtime_checkable
class RowLayer(OutputLayer, Protocol):
    """An output layer that looks at hidden vectors alone, so that a run has nothing to keep: to be inherited from."""

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D], with log probabilities; 1 <= k <= V, ties by lower id."""

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability of the given token of each row, [R] float32."""

    def open(self) -> OutputLayerRun:
        """This layer, whatever the request."""
        return _RowRun(self)


class _RowRun(OutputLayerRun):
    """A decoding run in which all requests are alike."""

    def __init__(self, layer: RowLayer) -> None:
        self._layer = layer
        self.reason = f"{type(layer).__name__} is computed in Python"

    def topk(self, hidden: Floats, k: int, request: Ids) -> TopK:
        """The output layer's."""
        top = self._layer.topk(hidden, k)
        for name, dtype in (("log_prob", np.float32), ("token", np.int32)):
            self._check(f"topk().{name}", getattr(top, name, None), (len(hidden), k), dtype)
        return top

    def log_prob(self, hidden: Floats, token: Ids, request: Ids) -> Floats:
        """The output layer's."""
        values = self._layer.log_prob(hidden, token)
        self._check("log_prob()", values, (len(hidden),), np.float32)
        return values

    def _check(self, what: str, values: object, shape: tuple[int, ...], dtype: type[np.generic]) -> None:
        """Raise ModelError where a layer from outside of the package answers with something else."""
        if not (isinstance(values, np.ndarray) and values.shape == shape and values.dtype == dtype):
            got = f"{values.dtype} of shape {list(values.shape)}" if isinstance(values, np.ndarray) else repr(values)
            raise ModelError(
                f"the output layer {type(self._layer).__name__}: {what} is {got}; it must be {dtype.__name__} of shape "
                f"{list(shape)}."
            )
