"""A Head in the place of a Hugging Face model's `lm_head`, for the time of its `generate` calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from sharpbeam.errors import InputError
from sharpbeam.types import Floats, TopK

if TYPE_CHECKING:
    from sharpbeam.api.head import Head

CLOSE = 1e-4  # of a logit: what a model may add to the output of its lm_head, or lose of it, by rounding
MOST = 1024  # tokens of a row: for more the full matrix is as fast
# Settings of `generate` that read or change the scores of tokens beyond the best, unless they are 0 or empty, or 1.
_OFF_AT_0 = (
    "assistant_model constraints custom_generate diversity_penalty dola_layers encoder_no_repeat_ngram_size "
    "exponential_decay_length_penalty force_words_ids logits_processor no_repeat_ngram_size output_logits "
    "output_scores penalty_alpha prefix_allowed_tokens_fn prompt_lookup_num_tokens sequence_bias watermarking_config"
)
_OFF_AT_1 = ("encoder_repetition_penalty", "guidance_scale", "num_beam_groups", "repetition_penalty")


@dataclass
class AttachedStats:
    """How many rows went through each output matrix since the head was attached."""

    head_rows: int = 0
    original_rows: int = 0


class AttachedHead:
    """The result of `Head.attach`: the head in its model, until `detach()` or the end of a `with` block.

    `model.generate` of the model then scores with `head` wherever the k best tokens decide: greedy search, beam search,
    and sampling with `top_k`. What needs other tokens' scores as well goes through the model's own matrix as before:
    repetition penalties, n-gram bans, sequence biases, processors of your own, `output_scores`, sampling without
    `top_k`. So does every call outside of `generate`. `stats` counts the rows of both.

    Not for several threads that generate with one model at the same time.
    """

    def __init__(self, model: Any, layer: torch.nn.Linear, head: Head, added: Floats | None) -> None:
        self.model, self.head, self.stats = model, head, AttachedStats()
        self._layer, self._added, self._k = layer, added, 0
        self._forward, self._generate = layer.forward, model.generate
        self.attach()

    def attach(self) -> None:
        """Put the head in its model again, after `detach()`; nothing is packed anew."""
        vars(self._layer)["forward"], vars(self.model)["generate"] = self._score, self._with_head  # not the class's

    def detach(self) -> None:
        """Give the model its own `lm_head` and `generate` back; a second call does nothing."""
        vars(self._layer).pop("forward", None)  # the class's own appear again
        vars(self.model).pop("generate", None)

    def __enter__(self) -> AttachedHead:
        self.attach()
        return self

    def __exit__(self, *raised: object) -> None:
        self.detach()

    def _with_head(self, *arguments: Any, **options: Any) -> Any:
        need = tokens_needed(self.model.generation_config, arguments, options)
        self._k = need if need < self.head.vocab_size else 0
        try:
            return self._generate(*arguments, **options)
        finally:
            self._k = 0

    def _score(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [..., V]: of the k best tokens as log probabilities, of the others their mean (`logits_of`).

        Greedy search has no use for a normalizer: there the best token takes all.
        """
        rows = hidden.reshape(-1, hidden.shape[-1])
        one_position = hidden.dim() < 3 or hidden.shape[-2] == 1  # a prompt whose positions are all scored is not ours
        if not self._k or not one_position or (torch.is_grad_enabled() and hidden.requires_grad):
            self.stats.original_rows += len(rows)
            return self._forward(hidden)
        self.stats.head_rows += len(rows)
        vectors = rows.detach().float().numpy()
        if self._k > 1:
            best = self.head.topk(vectors, self._k)
        else:  # greedy search, which takes the largest, whatever it is
            best = TopK(np.zeros((len(rows), 1), np.float32), self.head.best(vectors)[:, None])
        logits = logits_of(best, self.head.vocab_size)
        if self._added is not None:
            logits -= self._added  # the model adds it again
        return torch.from_numpy(logits).reshape(*hidden.shape[:-1], -1)


def tokens_needed(defaults: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> int:
    """The number k such that the k best tokens of each row decide; 0 if other tokens' scores may.

    `defaults` is the model's `generation_config`, `arguments` and `options` are those of the call to `generate`.
    Tokens that a call bans outright are added to what it needs.
    """
    config = options.get("generation_config", arguments[1] if len(arguments) > 1 else None)

    def value(name: str) -> Any:
        settings = (options.get(name), getattr(config, name, None), getattr(defaults, name, None))
        return next((setting for setting in settings if setting is not None), None)

    def count(name: str) -> int:
        ids = value(name)
        return len(ids) if hasattr(ids, "__len__") else int(ids is not None)

    changed = any(value(name) not in (None, 1) for name in _OFF_AT_1)
    if len(arguments) > 2 or changed or any(map(value, _OFF_AT_0.split())):
        return 0
    ends, beams = count("eos_token_id"), value("num_beams") or 1
    need = max(2, 1 + ends) * beams if beams > 1 else 1
    if value("do_sample"):
        if not value("top_k"):
            return 0
        need = max(need, value("top_k"), ends + 1)
    if value("min_length") or value("min_new_tokens"):
        need += ends
    need += sum(map(count, ("suppress_tokens", "begin_suppress_tokens", "bad_words_ids")))
    return need if need <= MOST else 0


def logits_of(best: TopK, vocab_size: int) -> Floats:
    """Logits [R, V] whose softmax has the k best tokens' exact probabilities, and spreads the rest evenly.

    The mean of the other probabilities is at most the largest of them, which is at most the k-th best. So the k best
    stay the k best, and both argmax and log-softmax of them are those of the full matrix.
    """
    log_prob = np.asarray(best.log_prob, np.float64)
    rest = np.maximum(-np.expm1(np.logaddexp.reduce(log_prob, axis=1)), np.finfo(np.float32).tiny)
    others = np.log(rest) - np.log(vocab_size - log_prob.shape[1])
    below = np.nextafter(best.log_prob[:, -1].astype(np.float32), np.float32(-np.inf))  # even where rounding says no
    logits: Floats = np.empty((len(log_prob), vocab_size), np.float32)
    logits[:] = np.minimum(others.astype(np.float32), below)[:, None]
    token, value = best.token[:, ::-1].astype(np.int64), best.log_prob[:, ::-1].astype(np.float32)
    np.put_along_axis(logits, token, value, axis=1)  # the last counts: not the token 0 that short rows are filled with
    return logits


def output_linear(model: Any) -> torch.nn.Linear:
    """The output matrix of a Hugging Face model; raises InputError for what cannot be attached to."""
    find = getattr(model, "get_output_embeddings", None)
    layer = find() if callable(find) and callable(getattr(model, "generate", None)) else None
    if not isinstance(layer, torch.nn.Linear):
        advice = "give a Hugging Face causal language model or encoder-decoder whose lm_head is a torch.nn.Linear"
        raise InputError(f"model is a {type(model).__name__} with the output {type(layer).__name__}; {advice}.")
    if layer.weight.device.type != "cpu":
        raise InputError(
            f"model is on the device {layer.weight.device}; Head.attach works on the CPU: model.to('cpu')."
        )
    if "forward" in vars(layer) or "generate" in vars(model):
        raise InputError(f"this {type(model).__name__} has a head attached already; call detach() of that one first.")
    return layer


def added_to_logits(model: Any, layer: torch.nn.Linear) -> Floats | None:
    """The vector [V] that the model adds to the output of `layer` (`final_logits_bias`), None for nothing.

    One short forward pass shows what the model does with that output. Raises InputError where it does more than add.
    """
    outputs: list[torch.Tensor] = []
    hook = layer.register_forward_hook(lambda module, inputs, logits: outputs.append(logits))
    size = layer.weight.shape[0]
    ids = torch.tensor([[size // 2, size // 3, size - 1]])  # no padding, whose embedding may be zero
    both = {"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}
    try:
        with torch.no_grad():
            logits = model(input_ids=ids, **both).logits[0, -1].float()
    finally:
        hook.remove()
    before = outputs[-1].reshape(-1, logits.shape[-1])[-1].float()
    bias = getattr(model, "final_logits_bias", None)
    added = torch.zeros_like(logits) if bias is None else bias.reshape(-1).float()
    scales = [getattr(model.config, name, None) for name in ("final_logit_softcapping", "logits_scaling")]
    if {*scales} - {None, 1} or not torch.allclose(logits, before + added, atol=CLOSE, rtol=CLOSE):
        examples = "(final_logit_softcapping, logits_scaling and the like)"
        raise InputError(
            f"{type(model).__name__} scales or caps its logits after lm_head {examples}: not supported yet."
        )
    return np.array(added.numpy(), np.float32) if bool(added.any()) else None
