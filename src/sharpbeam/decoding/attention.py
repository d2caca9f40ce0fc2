"""Attention of finished hypotheses, and the coverage penalty computed from it.

Each hypothesis is fed to the model once more, without an output layer. What a row attends to depends on its source and
on the tokens before it alone, so this is the attention during the search, and the search itself keeps nothing. It costs
one more encoding of each source, and one row per step for each answer (the search had beam_size rows).

Coverage penalty (GNMT: Wu et al. 2016, section 7): answers that leave source tokens without attention rank lower.

score = log_prob / length ** length_penalty + beta * sum over source tokens of log(min(total attention, 1))

All finished hypotheses that the search kept, beam_size of them by default, are ranked again, as in GNMT, OpenNMT and
CTranslate2; the search itself and its stopping rule do not change. Eos and language tags of the source do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sharpbeam.decoding.forced import feed, padded
from sharpbeam.models.interface import Attending
from sharpbeam.options.decode import SearchOptions
from sharpbeam.types import Floats, Hypothesis, Request

AT_ONCE = 32  # requests that are fed together; in a sealed session finished requests wait until there are so many
LEAST = float(np.finfo(np.float32).tiny)  # lower bound of total attention, so that no score is infinite

Attended = tuple[Request, slice, list[Hypothesis]]  # `slice`: where the text is in the source


def attend(
    model: Attending, found: Sequence[Attended], options: SearchOptions, bos_id: int, eos_id: int
) -> list[list[Hypothesis]]:
    """Hypotheses of each request with attention, ranked by coverage if `options` has a penalty.

    A hypothesis gets [T, S]: a column for each source token of the text, and one for all others, eos and language tags.
    """
    attended = _attend(model, found, bos_id, eos_id)
    if not options.coverage_penalty:
        return attended
    beta, answers, keep = options.coverage_penalty, options.num_hypotheses, options.return_attention
    return [_ranked(hypotheses, beta, keep)[:answers] for hypotheses in attended]


def coverage(attention: Floats) -> float:
    """Sum over the tokens of log(min(attention, 1)), 0 or less, for [T, S] whose last column belongs to no token."""
    total = attention[:, :-1].sum(axis=0, dtype=np.float64)
    return float(np.log(np.clip(total, LEAST, 1.0)).sum())


def _ranked(hypotheses: list[Hypothesis], beta: float, keep: bool) -> list[Hypothesis]:
    """Sorted by score with the penalty; equal scores keep their order."""
    scored = []
    for hypothesis in hypotheses:
        assert hypothesis.attention is not None
        score = hypothesis.score + beta * coverage(hypothesis.attention)
        scored.append(replace(hypothesis, score=score, attention=hypothesis.attention if keep else None))
    return sorted(scored, key=lambda hypothesis: -hypothesis.score)


def of_text(attention: Floats, text: slice) -> Floats:
    """Attention to a whole source [T, positions] as a column for each token in `text`, and a last one for the rest."""
    inside = attention[:, text]
    if inside.shape[1] == attention.shape[1] - 1 and not text.start:
        return attention  # only eos is left, so its column is the sum
    others = np.delete(attention, np.arange(attention.shape[1])[text], axis=1)
    return np.concatenate([inside, others.sum(axis=1, keepdims=True)], axis=1)


def _attend(model: Attending, found: Sequence[Attended], bos_id: int, eos_id: int) -> list[list[Hypothesis]]:
    entering = np.array([request.index for request, _, _ in found], np.int32)
    state = model.admit([request for request, _, _ in found])
    many = [len(hypotheses) for _, _, hypotheses in found]
    index, state = entering.repeat(many), state.repeat(many)
    rows = [(request, text, h) for request, text, hypotheses in found for h in hypotheses]
    targets = [np.array([*h.tokens, eos_id][: len(h.token_log_probs)], np.int32) for _, _, h in rows]
    given, length = padded(targets, bos_id)
    size = [len(request.source) for request, _, _ in rows]
    attention: list[Floats] = [np.zeros(shape, np.float32) for shape in zip(length.tolist(), size, strict=True)]
    for t, live, weights in feed(model.attend, model.retain, index, state, given, length, bos_id):
        for row, own in zip(live.tolist(), weights, strict=True):
            attention[row][t] = own[: size[row]]
    model.evict(entering)
    attended = iter([replace(h, attention=of_text(a, text)) for (_, text, h), a in zip(rows, attention, strict=True)])
    return [[next(attended) for _ in range(count)] for count in many]
