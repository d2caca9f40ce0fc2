"""Beam search of one request in plain Python, straight from the rules of Hugging Face's `generate`: slow and obvious.

Sums are taken in float64; where Hugging Face marks what must not be chosen with -1e9, it is left out here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sharpbeam.options.decode import SearchOptions

NextLogProbs = Callable[[tuple[int, ...]], np.ndarray]  # tokens so far -> log probabilities [V]


@dataclass
class Beam:
    tokens: tuple[int, ...]
    log_probs: tuple[float, ...]
    total: float
    score: float = 0.0
    fed: tuple[int, ...] = ()  # by cube pruning: what the model was fed for it, which may be other tokens


def continuations(
    beam: Beam,
    next_log_probs: NextLogProbs,
    options: SearchOptions,
    eos_id: int,
    prefix: tuple[int, ...],
    last: float = 0.0,
) -> list[Beam]:
    """All that may follow `beam`, best first, equal ones by lower id."""
    if len(beam.tokens) < len(prefix):
        value = 0.0 if len(beam.tokens) < len(prefix) - 1 else last
        return [Beam((*beam.tokens, prefix[len(beam.tokens)]), (*beam.log_probs, value), beam.total + value)]
    if options.forced_eos and len(beam.tokens) + 1 == options.max_length:
        return [Beam((*beam.tokens, eos_id), (*beam.log_probs, 0.0), beam.total)]
    log_probs = next_log_probs(beam.tokens)
    values = log_probs.astype(np.float32)
    for token in set(beam.tokens):
        values[token] *= np.float32(options.repetition_penalty)
    results = []
    for token in np.argsort(-values, kind="stable").tolist():
        value = float(values[token])
        banned = token == eos_id and len(beam.tokens) < options.min_length
        if value > -np.inf and not banned and not repeats((*beam.tokens, token), options.no_repeat_ngram_size):
            messages = (*beam.log_probs, float(log_probs[token]))
            results.append(Beam((*beam.tokens, token), messages, beam.total + value))
    return results[: options.max_children]


def repeats(tokens: tuple[int, ...], ngram: int) -> bool:
    """Whether the last n-gram of `tokens` is in it before."""
    grams = [tokens[i : i + ngram] for i in range(len(tokens) - ngram + 1)] if ngram else []
    return bool(grams) and grams[-1] in grams[:-1]


Expand = Callable[[list[Beam]], list[Beam]]  # live rows -> their candidates, by row


def in_reach(beam: Beam, highest: float, options: SearchOptions) -> bool:
    """Whether `beam` is above both thresholds."""
    margin, ratio = options.max_score_margin, options.max_score_ratio
    return (margin is None or beam.total >= highest - margin) and (ratio is None or beam.total >= highest * ratio)


def is_done(finished: list[Beam], top: float, best: float, length: int, options: SearchOptions) -> bool:
    """Whether to stop while there are live rows, the best with the sum `best`, after `length` tokens; `top` is the
    highest sum of all that ever finished."""
    answers, penalty, rule = options.num_hypotheses, options.length_penalty, options.early_stopping
    if options.stop_margin is not None and len(finished) >= answers and best < top - options.stop_margin:
        return True
    if rule == "exhaustive":
        return False
    if rule == "proven":
        if options.finishing == "stay" and any(best > beam.total for beam in finished[:answers]):
            return False
        ends = range(max(length, options.min_length) + 1, options.max_length + 1)
        return len(finished) >= answers and all(best / end**penalty <= finished[answers - 1].score for end in ends)
    if len(finished) < round(options.beam_size * options.patience):
        return False
    flatters = rule == "never" and penalty > 0
    return rule == "true" or best / (options.max_length if flatters else length) ** penalty <= finished[-1].score


def reference_search(
    next_log_probs: NextLogProbs,
    options: SearchOptions,
    eos_id: int,
    prefix: tuple[int, ...] = (),
    expand: Expand | None = None,
    last: float = 0.0,
) -> list[Beam]:
    """The finished hypotheses of one request, best first; eos is among their tokens.

    All begin with `prefix`, whose last token adds `last` to their scores, and the others nothing. `expand` gives the
    candidates of all live rows in another way than beam search.
    """
    width, penalty = options.beam_size, options.length_penalty
    stays = options.finishing == "stay"
    sure = options.early_stopping in ("proven", "exhaustive")
    places = width if sure or stays else round(width * options.patience)
    running = [Beam((), (), 0.0)]
    finished: list[Beam] = []
    top = -np.inf
    for length in range(1, options.max_length + 1):
        candidates = (
            expand(running)
            if expand
            else [
                next_beam
                for beam in running
                for next_beam in continuations(beam, next_log_probs, options, eos_id, prefix, last)
            ]
        )
        candidates.sort(key=lambda beam: -beam.total)  # stable: lower row first
        candidates = candidates[: 2 * width if width > 1 else 1]
        highest = max([top, *(beam.total for beam in candidates[:1])])
        candidates = [beam for beam in candidates if in_reach(beam, highest, options)]
        if stays:
            held = [beam for beam in finished if in_reach(beam, highest, options)]
            on_beam = sorted(held + candidates, key=lambda beam: -beam.total)[:width]
            finished = [beam for beam in held if beam in on_beam]
            candidates = [beam for beam in candidates if beam in on_beam]

        def ends(beam: Beam) -> bool:
            return beam.tokens[-1] == eos_id or len(beam.tokens) == options.max_length

        before, running = running, [beam for beam in candidates if not ends(beam)][:width]
        for beam in candidates[:width]:
            if ends(beam):
                beam.score = beam.total / length**penalty
                finished.append(beam)
                top = max(top, beam.total)
        finished = sorted(finished, key=lambda beam: -beam.score)[:places]
        if not running and not finished:  # nothing was possible at all: what there is, is the answer
            for beam in before:
                beam.score = beam.total / max(length - 1, 1) ** penalty
            finished = sorted(before, key=lambda beam: -beam.score)[:places]
        if not running or is_done(finished, top, running[0].total, length, options):
            break
    return finished[: options.num_hypotheses]


def reference_greedy(next_log_probs: NextLogProbs, options: SearchOptions, eos_id: int) -> Beam:
    """The best token, until it is eos."""
    beam = Beam((), (), 0.0)
    while len(beam.tokens) < options.max_length and beam.tokens[-1:] != (eos_id,):
        log_probs = np.array(next_log_probs(beam.tokens))
        if len(beam.tokens) < options.min_length:
            log_probs[eos_id] = -np.inf
        token = int(log_probs.argmax())
        value = float(log_probs[token])
        beam = Beam((*beam.tokens, token), (*beam.log_probs, value), beam.total + value)
    beam.score = beam.total / len(beam.tokens) ** options.length_penalty
    return beam
