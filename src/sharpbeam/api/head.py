"""Head: an output layer for models that run elsewhere; hidden vectors in, likeliest tokens out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from safetensors import SafetensorError
from safetensors.numpy import load_file

from sharpbeam.decoding.loading import find_model, load_model
from sharpbeam.errors import InputError, ModelError
from sharpbeam.options.schema import require
from sharpbeam.output_layers.interface import Normalizing, OutputLayer, RowLayer
from sharpbeam.output_layers.registry import LayerInputs, find_output_layer, output_layers
from sharpbeam.output_layers.screen import ScreenLayer
from sharpbeam.storage.artifacts import FolderArtifacts
from sharpbeam.types import Floats, Ids, TopK

if TYPE_CHECKING:
    from sharpbeam.api.attached import AttachedHead

LARGEST = 1e12  # of a value: beyond it dot products overflow float32, and no bound holds
HEAD = "head.safetensors"  # weight [V, D] and bias [V] in a folder made by `fit_head`


class Head:
    """One of our output layers for the output matrix of any model. Any number of threads may share one.

    >>> import numpy as np
    >>> from sharpbeam import Head
    >>> head = Head(np.eye(4, 3, dtype=np.float32))
    >>> head.topk([[0.0, 2.0, 1.0]], 2).token.tolist()
    [[1, 2]]

    The result of a row has the same bits whatever the other rows are. `scan` returns the k best tokens of `exact`,
    proven; `preview` nearly always, measured; `screen` as often as it was fitted to (`fit_head`), for at most its
    `top_k` tokens: more are those of `scan`. A screen or preview works only with the weights that it was fitted for.
    """

    def __init__(self, weight: ArrayLike, bias: ArrayLike | None = None, output_layer: str = "scan") -> None:
        """Pack a copy of the output matrix [V, D] with its bias [V] (None: zeros) as float32, for `exact` or `scan`.

        Raises InputError for arrays that do not fit, OptionError for other layers, which must be fitted (`load`).
        """
        allowed = output_layers(artifacts=())
        fitted = "others are read from a folder that fit_head has made: Head.load"
        require(output_layer in allowed, "output_layer", output_layer, f"{' or '.join(allowed)}; {fitted}")
        self._open(*output_arrays(weight, bias), output_layer, Path())

    @classmethod
    def load(cls, folder: str | Path, output_layer: str = "screen") -> Head:
        """Load the head in a folder made by `fit_head`, or that of a model by its name or folder; raises ModelError."""
        allowed = output_layers(artifacts=("preview", "screen"))
        require(output_layer in allowed, "output_layer", output_layer, " or ".join(allowed))
        head = cls.__new__(cls)
        own = Path(folder) if (Path(folder) / HEAD).exists() else find_model(str(folder))
        head._open(*read_head(own), output_layer, own)
        return head

    @classmethod
    def attach(cls, model: Any, output_layer: str = "scan", folder: str | Path | None = None) -> AttachedHead:
        """Put a head in the place of the `lm_head` of a Hugging Face model on the CPU, for its `generate`.

        The model's matrix is shared if it is float32, else copied. `exact` and `scan` need no fit; other layers are
        read from a `folder` that `fit_head` has made for its matrix. The tokens are those of the model in
        float32: greedy, sampling with `top_k`, and beams with `exact`. Returns an AttachedHead, whose `detach()`
        undoes it all; attach again after a change of the weights. Needs PyTorch.

        Raises InputError for models on other devices, without a plain `lm_head`, or that scale or cap its logits;
        ModelError for a folder that was made for other weights.
        """
        from sharpbeam.api.attached import AttachedHead, added_to_logits, output_linear

        layer = output_linear(model)
        allowed = output_layers(artifacts=("preview", "screen") if folder else ())
        need = "" if folder else "; others need the `folder` of a fit"
        require(output_layer in allowed, "output_layer", output_layer, f"{' or '.join(allowed)}{need}")
        weight = float_array("lm_head.weight", layer.weight.detach().float().numpy())
        bias = None if layer.bias is None else layer.bias.detach().float().numpy()
        added = added_to_logits(model, layer)
        total = sum((part for part in (bias, added) if part is not None), np.zeros(len(weight), np.float32))
        head = cls.__new__(cls)
        head._open(weight, float_array("bias of lm_head", total), output_layer, Path(folder or ""))
        return AttachedHead(model, layer, head, added)

    def _open(self, weight: Floats, bias: Floats, output_layer: str, folder: Path) -> None:
        self.vocab_size, self.dim = weight.shape
        built, artifacts = dict[str, OutputLayer](), FolderArtifacts(folder, weight, bias)

        def layer(name: str) -> OutputLayer:
            if name not in built:
                inputs = LayerInputs(weight, bias, artifacts, folder, layer)
                built[name] = find_output_layer(name).build(inputs)
            return built[name]

        output = layer(output_layer)
        by_row = isinstance(output, RowLayer)
        require(by_row, "output_layer", output_layer, "one that looks at hidden vectors alone")
        self._layer = cast(RowLayer, output)
        without = output.unnormalized() if isinstance(output, Normalizing) else output
        self._greedy = cast(RowLayer, without)

    def topk(self, hidden: ArrayLike, k: int) -> TopK:
        """The k best tokens of each row of `hidden` [R, D] with their log probabilities [R, k], ties by lower id.

        Raises InputError for vectors of another width or with values that are not finite, and unless 1 <= k <= V.
        """
        if not isinstance(k, (int, np.integer)) or isinstance(k, bool) or not 1 <= k <= self.vocab_size:
            raise InputError(f"k is {k!r}; it must be a whole number from 1 to {self.vocab_size} (the vocabulary).")
        layer: RowLayer = self._layer
        if isinstance(layer, ScreenLayer) and layer.fallback is not None and k > layer.tested:
            layer = layer.fallback
        return layer.topk(float_rows(hidden, self.dim), int(k))

    def best(self, hidden: ArrayLike) -> Ids:
        """The best token [R] of each row of `hidden` [R, D], ties by lower id: `topk` without its normalizer.

        It compares logits. `topk` compares log probabilities, which are equal where logits differ by less than their
        rounding, so there the two may name different tokens.
        """
        return self._greedy.topk(float_rows(hidden, self.dim), 1).token[:, 0]

    def log_prob(self, hidden: ArrayLike, token: ArrayLike) -> Floats:
        """Log probability [R] of the given token [R] of each row of `hidden` [R, D]."""
        rows = float_rows(hidden, self.dim)
        try:
            tokens = np.asarray(token)
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"token cannot be read as an array ({error}); give {len(rows)} ids, one a row.") from error
        if not tokens.size:
            tokens = tokens.astype(np.int32)
        if tokens.shape != (len(rows),) or tokens.dtype.kind not in "iu":
            raise InputError(f"token is {tokens.dtype} of shape {list(tokens.shape)}; give {len(rows)} ids, one a row.")
        if len(tokens) and not 0 <= tokens.min() <= tokens.max() < self.vocab_size:
            raise InputError(
                f"token has ids from {tokens.min()} to {tokens.max()}; they must be 0 to {self.vocab_size - 1}."
            )
        ids: Ids = tokens.astype(np.int32)
        return self._layer.log_prob(rows, ids)


def float_array(name: str, values: ArrayLike) -> Floats:
    """`values` as contiguous float32; raises InputError, which says `name`, where they are no finite floats."""
    try:
        numbers = np.asarray(values)
    except (TypeError, ValueError, RuntimeError) as error:  # a tensor with a gradient, of bfloat16, of another device
        advice = "give an array of floats; of a PyTorch tensor, .detach().float().cpu()"
        raise InputError(f"{name} cannot be read as an array ({error}); {advice}.") from error
    if numbers.dtype.kind not in "fiu":
        raise InputError(f"{name} is {numbers.dtype}; it must be an array of floats.")
    with np.errstate(over="ignore"):
        array: Floats = np.ascontiguousarray(numbers, np.float32)
    if not np.abs(array).max(initial=0) <= LARGEST:
        raise InputError(f"{name} has values that are infinite, NaN, or beyond {LARGEST:g}.")
    return array


def float_rows(values: ArrayLike, width: int) -> Floats:
    """The same for the hidden vectors, rows [any number, width]."""
    rows = float_array("hidden", values)
    if rows.ndim != 2 or rows.shape[1] != width:
        raise InputError(f"hidden has the shape {list(rows.shape)}; it must be [rows, {width}].")
    return rows


def output_arrays(weight: ArrayLike, bias: ArrayLike | None) -> tuple[Floats, Floats]:
    """The output matrix [V, D] and bias [V] as they are packed; raises InputError where they do not fit."""
    matrix: Floats = np.array(float_array("weight", weight))  # a copy, as layers share it
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise InputError(f"weight has the shape {list(matrix.shape)}; it must be [tokens, width], both 1 or more.")
    added = float_array("bias", np.zeros(len(matrix)) if bias is None else bias)
    if added.shape != (len(matrix),):
        raise InputError(f"bias has the shape {list(added.shape)}; it must be [{len(matrix)}], one for each token.")
    return matrix, added


def read_head(folder: Path) -> tuple[Floats, Floats]:
    """The output matrix [V, D] and bias [V] in the folder of a head; raises ModelError where they are not there."""
    path = folder / HEAD
    if (folder / "config.json").exists():  # a model's
        return load_model(folder).model.output()
    try:
        arrays = load_file(path)
        return output_arrays(arrays["weight"], arrays["bias"])
    except FileNotFoundError as error:
        raise ModelError(f"{folder} has no {HEAD}; fit_head makes one.") from error
    except (SafetensorError, OSError, KeyError, InputError) as error:
        raise ModelError(f"{path} is no head ({error}); make it again with fit_head.") from error
