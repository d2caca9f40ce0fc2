"""Fitted artifacts as layers declare them: a name, a format, and how values become arrays and facts, and back.

`storage.artifacts` keeps them in the model folder, as NAME.safetensors with NAME.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from sharpbeam.errors import ModelError, OptionError

OUTPUT, SOURCE, TARGET = "output_sha256", "source_vocabulary_sha256", "target_vocabulary_sha256"
Arrays = Mapping[str, NDArray[Any]]
Spec = dict[str, tuple[DTypeLike, tuple[int | str, ...]]]


@dataclass(frozen=True)
class Stored:
    """The content of both files of an artifact, and the sizes of the model that reads it."""

    where: str  # of the arrays, for errors
    again: str  # advice for errors
    facts: Mapping[str, Any]
    arrays: Arrays
    sizes: Mapping[str, int]  # V tokens, D width, S source tokens

    def checked(self, spec: Spec, prefix: str = "") -> dict[str, NDArray[Any]]:
        """The arrays of `spec` by name, which gives dtype and shape of each; a letter in a shape is one size.

        With a `prefix`, those that are stored under it. Raises ModelError.
        """
        own = {name.removeprefix(prefix): a for name, a in self.arrays.items() if name.startswith(prefix)}
        if own.keys() != spec.keys():
            self.require(False, f"it holds {', '.join(sorted(own))}; it must hold {', '.join(sorted(spec))}")
        sizes = dict(self.sizes)
        for name, (kind, shape) in spec.items():
            array, dtype = own[name], np.dtype(kind)
            fits = array.ndim == len(shape)
            for letter, size in zip(shape, array.shape, strict=False):
                fits &= size == (sizes.setdefault(letter, size) if isinstance(letter, str) else letter)
            expected = [sizes.get(letter, letter) if isinstance(letter, str) else letter for letter in shape]
            self.require(
                fits and array.dtype == dtype,
                f"{prefix}{name} is {array.dtype} of shape {list(array.shape)}; it must be {dtype} of shape {expected}",
            )
            finite = dtype.kind != "f" or not np.isnan(array).any()
            self.require(finite, f"{prefix}{name} has values that are no numbers")
        return own

    def require(self, sound: bool, fault: str) -> None:
        """Raise ModelError, which names the file, the fault and the remedy, unless `sound`."""
        if not sound:
            raise ModelError(f"{self.where}: {fault}. {self.again}")

    def check_lists(self, start: NDArray[Any], token: NDArray[Any], shortest: int, prefix: str = "") -> None:
        """Raise ModelError unless `start` divides the tokens into lists of at least `shortest` ids of the model."""
        rises = len(start) and start[0] == 0 and start[-1] == len(token) and (np.diff(start) >= shortest).all()
        self.require(bool(rises), f"{prefix}start must rise from 0 to the number of tokens, {len(token)}")
        self.check_ids(token, f"{prefix}token")

    def check_ids(self, ids: NDArray[Any], name: str) -> None:
        """Raise ModelError for an id that is no token of the model."""
        vocab = self.sizes["V"]
        bad = ids[(ids < 0) | (ids >= vocab)]
        self.require(not len(bad), f"{name} holds {bad[:1].tolist()}; tokens of the model are 0 to {vocab - 1}")


@dataclass(frozen=True)
class Artifact:
    """The declaration of one kind of artifact."""

    name: str  # of its two files
    version: int  # of the format
    layer: str  # `sharpbeam fit LAYER` makes it
    options: str  # that the verb needs, for advice
    read: Callable[[Stored], Any]
    write: Callable[[Any], tuple[Arrays, Mapping[str, Any]]]
    """Arrays, and the facts that are needed to read them."""
    made_for: tuple[str, ...] = (OUTPUT,)
    """Parts that it is of no use without: the keys of their digests."""


def check_fidelity(layer: str, least: float | None, measured: float) -> None:
    """Raise OptionError where a layer with the `measured` fidelity is asked for more: at least `least`, if any."""
    if least is not None and least > measured:
        has = f"was measured to have at least {measured:.5f}" if measured else "was not measured on text"
        raise OptionError(
            f"fidelity is {least}; the {layer} of this model {has}. Fit it again: sharpbeam fit {layer} MODEL "
            f"--text FILE --fidelity {least}. Layers with a proof: exact, scan, preview with fidelity 1."
        )
