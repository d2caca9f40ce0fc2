"""An output layer of your own, by name: SVD-softmax (Shim et al. 2017, section 3) in NumPy.

Registered once, it is a choice of `output_layer` wherever there is one: Translator, Generator, Scorer and Head.
Low-rank logits of all tokens say which of them are likely; these take exact logits, and the normalizer takes both.
"""

from __future__ import annotations

import numpy as np

from sharpbeam import Translator, register_output_layer
from sharpbeam.output_layers.interface import RowLayer
from sharpbeam.types import Floats, Ids, TopK


class SvdSoftmax(RowLayer):
    """W = A B with A the left singular vectors times the singular values; the first `rank` columns are the preview."""

    def __init__(self, weight: Floats, bias: Floats, rank: int, exact: int) -> None:
        left, size, self.right = np.linalg.svd(weight, full_matrices=False)
        self.weight, self.bias, self.preview = weight, bias, (left * size)[:, :rank]
        self.rank, self.exact, self.vocab_size = rank, min(exact, len(weight)), len(weight)

    def log_probs(self, hidden: Floats) -> Floats:
        """Log probability [V] of each token after one hidden vector [D]."""
        logits = self.preview @ (self.right[: self.rank] @ hidden) + self.bias
        likely = np.argpartition(-logits, self.exact - 1)[: self.exact]
        logits[likely] = self.weight[likely] @ hidden + self.bias[likely]
        result: Floats = (logits - np.logaddexp.reduce(logits, dtype=np.float64)).astype(np.float32)
        return result

    def topk(self, hidden: Floats, k: int) -> TopK:
        """The k best tokens of each row [R, D], equal log probabilities by lower id."""
        every = np.stack([self.log_probs(row) for row in hidden]) if len(hidden) else np.empty((0, self.vocab_size))
        token = np.argsort(-every, axis=1, kind="stable")[:, :k].astype(np.int32)
        return TopK(np.take_along_axis(every, token, axis=1).astype(np.float32), token)

    def log_prob(self, hidden: Floats, token: Ids) -> Floats:
        """Log probability [R] of one token [R] of each row [R, D]."""
        return np.array([self.log_probs(row)[one] for row, one in zip(hidden, token, strict=True)], np.float32)


register_output_layer(
    "svd", lambda inputs: SvdSoftmax(inputs.weight, inputs.bias, rank=96, exact=400), "low-rank logits, then exact ones"
)

if __name__ == "__main__":
    translator = Translator("de-en")
    for layer in ("exact", "svd"):
        print(f"{layer}: {translator.translate(['Guten Morgen, wie geht es dir?'], output_layer=layer)[0].text}")
