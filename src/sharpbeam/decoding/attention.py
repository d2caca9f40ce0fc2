"""Attention of finished hypotheses, and the coverage penalty computed from it.

Each hypothesis is fed to the model once more, without an output layer. The attention of a row depends only on its
source and on the tokens before it, so this is the attention during the search, and the search itself keeps nothing. It
costs one more encoding of each source, and one row per step for each answer (the search had beam_size rows).

Coverage penalty (GNMT: Wu et al. 2016, section 7): answers that leave source tokens without attention rank lower.

score = log_prob / length ** length_penalty + beta * sum over source tokens of log(min(total attention, 1))

All finished hypotheses that the search kept, beam_size of them by default, are ranked again, as in GNMT, OpenNMT and
CTranslate2; the search itself does not change. Eos and language tags of the source do not count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from sharpbeam.decoding.forced import feed, padded
from sharpbeam.decoding.loading import LoadedModel
from sharpbeam.decoding.loop import Alone, Finished, Run
from sharpbeam.models.interface import Attending
from sharpbeam.options.decode import LanguageOptions, SearchOptions
from sharpbeam.output_layers.interface import OutputLayer
from sharpbeam.scheduling.interface import Schedule
from sharpbeam.search.interface import Search
from sharpbeam.types import Floats, Hypothesis, Ids

AT_ONCE, WAIT = 32, 3  # requests fed together; steps that a finished one waits for others, any number when sealed
LEAST = float(np.finfo(np.float32).tiny)  # lower bound of total attention, so that no score is infinite


class AttendedRun(Run):
    """A decoding run whose hypotheses get attention, and are ranked by coverage, before they are done."""

    def __init__(
        self, loaded: LoadedModel, output_layer: OutputLayer, search: Search, schedule: Schedule, options: SearchOptions
    ) -> None:
        """As `Run`, for a model that attends."""
        super().__init__(loaded.model.open(), output_layer, search, schedule)
        self._loaded, self._options = loaded, options
        self._unattended: Finished = []
        self._waited = 0

    @property
    def busy(self) -> bool:
        """Whether requests are in flight or waiting, or have no attention yet."""
        return bool(self._unattended) or super().busy

    @property
    def requests(self) -> list[int]:
        """The requests that are not done."""
        return [*super().requests, *(request.index for request, _ in self._unattended)]

    def step(self, alone: Alone = "one step") -> Finished:
        """Take a step as `Run.step`; while others run, finished requests wait until some can be fed together."""
        self._unattended += super().step(alone)
        self._waited = self._waited + 1 if self._unattended else 0
        waits = self.schedule.busy and (self.schedule.final or (self._waited <= WAIT and len(self.flight) > 1))
        if waits and len(self._unattended) < AT_ONCE:
            return []
        groups = [self._unattended[first : first + AT_ONCE] for first in range(0, len(self._unattended), AT_ONCE)]
        attended = [answer for group in groups for answer in self._attended(group)]
        self._unattended = []
        return attended

    def _attended(self, finished: Finished) -> Finished:
        """Finished requests with attention [T, S] for each hypothesis, ranked by coverage if there is a penalty.

        S has a column for each source token of the text, and one for all others, eos and language tags.
        """
        languages = [LanguageOptions(r.languages.source, r.languages.target) for r, _ in finished]
        texts = [self._loaded.direction(each).text for each in languages]
        attended = self._feed(finished, texts)
        if self._options.coverage_penalty:
            attended = [_ranked(hypotheses, self._options) for hypotheses in attended]
        return [(request, hypotheses) for (request, _), hypotheses in zip(finished, attended, strict=True)]

    def _feed(self, finished: Finished, texts: list[slice]) -> list[list[Hypothesis]]:
        """The hypotheses of finished requests with attention; `texts`: where the text of each is in its source."""
        model, bos_id, eos_id = cast(Attending, self.model), self._loaded.model.bos_id, self._loaded.model.eos_id
        entering = np.array([request.index for request, _ in finished], np.int32)
        state = model.admit([request for request, _ in finished])
        counts = [len(hypotheses) for _, hypotheses in finished]
        index, state = entering.repeat(counts), state.repeat(counts)
        rows = [(len(request.source), h) for request, hypotheses in finished for h in hypotheses]
        targets = [np.array([*h.tokens, eos_id][: len(h.token_log_probs)], np.int32) for _, h in rows]
        tokens, length = padded(targets, bos_id)
        attention: list[Floats] = [np.zeros((t, size), np.float32) for t, (size, _) in zip(length, rows, strict=True)]
        for t, live, weights in feed(model.attend, self._retain, index, state, tokens, length, bos_id):
            for row, own in zip(live.tolist(), weights, strict=True):
                attention[row][t] = own[: rows[row][0]]
        model.evict(entering)
        shares = iter(attention)
        return [
            [replace(hypothesis, attention=of_text(next(shares), text)) for hypothesis in hypotheses]
            for (_, hypotheses), text in zip(finished, texts, strict=True)
        ]

    def _retain(self, state: Ids) -> None:
        """Free every state except `state` and those of live rows."""
        self.model.retain(np.concatenate([state, self.rows.state]))


def coverage(attention: Floats) -> float:
    """Sum over the tokens of log(min(attention, 1)), 0 or less, for [T, S] whose last column belongs to no token."""
    total = attention[:, :-1].sum(axis=0, dtype=np.float64)
    return float(np.log(np.clip(total, LEAST, 1.0)).sum())


def _ranked(hypotheses: list[Hypothesis], options: SearchOptions) -> list[Hypothesis]:
    """The best by score with the penalty; equal scores keep their order."""
    scored = []
    for hypothesis in hypotheses:
        assert hypothesis.attention is not None
        score = hypothesis.score + options.coverage_penalty * coverage(hypothesis.attention)
        attention = hypothesis.attention if options.return_attention else None
        scored.append(replace(hypothesis, score=score, attention=attention))
    return sorted(scored, key=lambda hypothesis: -hypothesis.score)[: options.num_hypotheses]


def of_text(attention: Floats, text: slice) -> Floats:
    """Attention to a whole source [T, positions] as a column for each token in `text`, and a last one for the rest."""
    inside = attention[:, text]
    if inside.shape[1] == attention.shape[1] - 1 and not text.start:
        return attention  # only eos is left, so its column is the sum
    others = np.delete(attention, np.arange(attention.shape[1])[text], axis=1)
    return np.concatenate([inside, others.sum(axis=1, keepdims=True)], axis=1)
