"""The kernels in readable NumPy: what they mean, in float64. The native ones are tested against these.

Arguments are float32 or float64 arrays; answers are float64, indices int32.
"""

from __future__ import annotations

from math import erfc

import numpy as np
from numpy.typing import NDArray

from sharpbeam.types import Floats, Ids

Doubles = NDArray[np.float64]
Array = Floats | Doubles


def _double(x: Array) -> Doubles:
    return np.asarray(x, dtype=np.float64)


def gemm(x: Array, weight: Array, bias: Array) -> Doubles:
    """Product of rows x [R, in] with weight [out, in], plus bias [out]: [R, out]."""
    return _double(x) @ _double(weight).T + _double(bias)


def rounded(x: Array, most: int) -> Doubles:
    """Each row of x [R, in] as whole multiples of its largest size / `most`, back in floats."""
    x = _double(x)
    scale = np.abs(x).max(axis=1, keepdims=True) / most
    multiple: Doubles = np.rint(np.divide(x, scale, where=scale > 0, out=np.zeros_like(x))) * scale
    return multiple


def sigmoid(x: Array) -> Doubles:
    """1 / (1 + exp(-x)), element-wise, without overflow."""
    return 0.5 * (1.0 + np.tanh(0.5 * _double(x)))


def gru(inputs: Array, hidden: Array, state: Array) -> Doubles:
    """One step of a GRU: `inputs` and `hidden` [3 D] are W x + b and U h + c, gates in the order r, z, n; state [D].

    r, z = sigmoid(inputs + hidden), n = tanh(inputs + r * hidden), next = (1 - z) n + z state.
    """
    input_r, input_z, input_n = np.split(_double(inputs), 3)
    hidden_r, hidden_z, hidden_n = np.split(_double(hidden), 3)
    r, z = sigmoid(input_r + hidden_r), sigmoid(input_z + hidden_z)
    n = np.tanh(input_n + r * hidden_n)
    return (1.0 - z) * n + z * _double(state)


def lstm(inputs: Array, hidden: Array, cell: Array) -> tuple[Doubles, Doubles]:
    """An LSTM step: `inputs` and `hidden` [4 D] are W x + b and U h + c, gates in the order i, f, g, o; cell [D].

    next = f cell + i g, output = o tanh(next), where i, f, o = sigmoid(inputs + hidden), g = tanh(inputs + hidden);
    returns next and output.
    """
    i, f, g, o = np.split(_double(inputs) + _double(hidden), 4)
    after = sigmoid(f) * _double(cell) + sigmoid(i) * np.tanh(g)
    return after, sigmoid(o) * np.tanh(after)


def mlp_scores(query: Array, keys: Array, weight: Array) -> Doubles:
    """Scores [S] of query [A] at keys [S, A]: weight . tanh(key + query), CUBE eq. 4."""
    return np.tanh(_double(keys) + _double(query)) @ _double(weight)


def dot_scores(query: Array, keys: Array) -> Doubles:
    """Scores [S] of query [A] at keys [S, A]: their inner products."""
    return _double(keys) @ _double(query)


def softmax(x: Array) -> Doubles:
    """exp(x) / sum of exp(x), for x [n]."""
    e = np.exp(_double(x) - _double(x).max())
    return _double(e / e.sum())


def multihead_scores(query: Array, keys: Array, heads: int) -> Doubles:
    """Scores [H, S] of query [D] at keys [S, D], whose heads stand side by side."""
    parts = _double(keys).reshape(len(keys), heads, -1)
    return _double(np.einsum("hd,shd->hs", _double(query).reshape(heads, -1), parts))


def multihead_context(weights: Array, values: Array) -> Doubles:
    """Sum of values [S, D], whose heads stand side by side, weighted by weights [H, S]: [D]."""
    parts = _double(values).reshape(len(values), len(weights), -1)
    return _double(np.einsum("hs,shd->hd", _double(weights), parts).reshape(-1))


def add_norm(x: Array, added: Array, weight: Array, bias: Array, epsilon: float) -> tuple[Doubles, Doubles]:
    """x + added [D], and its layer norm (Ba et al. 2016) times weight plus bias."""
    total = _double(x) + _double(added)
    norm = (total - total.mean()) / np.sqrt(total.var() + epsilon)
    return total, norm * _double(weight) + _double(bias)


def add_rms_norm(x: Array, added: Array, weight: Array, epsilon: float) -> tuple[Doubles, Doubles]:
    """x + added [D], and its RMS norm (Zhang & Sennrich 2019) times weight."""
    total = _double(x) + _double(added)
    return total, total / np.sqrt(np.square(total).mean() + epsilon) * _double(weight)


def ssru(inputs: Array, cell: Array) -> tuple[Doubles, Doubles]:
    """A step of a simpler simple recurrent unit (Kim et al. 2019): `inputs` [2 D] are x and f, cell [D].

    next = sigmoid(f) cell + (1 - sigmoid(f)) x, output = max(next, 0); returns next and output.
    """
    x, f = np.split(_double(inputs), 2)
    after = x + sigmoid(f) * (_double(cell) - x)
    return after, np.maximum(after, 0.0)


def relu(x: Array) -> Doubles:
    """The larger of x and 0, element-wise."""
    return _double(np.maximum(_double(x), 0.0))


def swish(x: Array, slope: float) -> Doubles:
    """x sigmoid(slope x), element-wise."""
    return _double(x) * sigmoid(slope * _double(x))


def gelu(x: Array) -> Doubles:
    """x times the chance that a normal variable is below x (Hendrycks & Gimpel 2016), element-wise."""
    return _double(_double(x) * np.array([0.5 * erfc(-v * 0.5**0.5) for v in _double(x).tolist()]))


def gelu_tanh(x: Array) -> Doubles:
    """The approximation of gelu by tanh (Hendrycks & Gimpel 2016), element-wise."""
    x = _double(x)
    return 0.5 * x * (1.0 + np.tanh(np.sqrt(2.0 / np.pi) * (x + 0.044715 * x**3)))


def log_sum_exp(x: Array) -> Doubles:
    """log(sum(exp(x))) over the last axis, which is kept with size 1."""
    top = _double(x).max(axis=-1, keepdims=True)
    return _double(top + np.log(np.exp(_double(x) - top).sum(axis=-1, keepdims=True)))


def top_k(x: Array, k: int) -> Ids:
    """Indices of the k largest along the last axis, largest first, equal values by lower index."""
    return np.argsort(-x, axis=-1, kind="stable")[..., :k].astype(np.int32)
