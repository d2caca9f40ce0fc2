"""Beam search of one request whose answers have to contain phrases, in plain Python: slow and obvious.

Dynamic beam allocation (Post & Vilar 2018) with the rules of csrc/search/beam.h and phrases.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from reference.beam import Beam, NextLogProbs, continuations, is_done, repeats

from sharpbeam.options.decode import SearchOptions
from sharpbeam.types import Phrases

MOST_ROWS, LEAST = 64, -20.0


@dataclass(frozen=True)
class Progress:
    """The numbers of the phrases that some tokens have, and the run of last tokens that begins another."""

    met: tuple[int, ...] = ()
    begun: tuple[int, ...] = ()
    whole: bool = False  # the last token ended a phrase

    def tokens(self, phrases: Phrases) -> int:
        return sum(max(map(len, phrases[number])) for number in self.met) + len(self.begun)

    def lacks(self, phrases: Phrases) -> list[tuple[int, tuple[int, ...]]]:
        """The forms of phrases that are not met."""
        return [(n, form) for n, forms in enumerate(phrases) if n not in self.met for form in forms]

    def add(self, token: int, phrases: Phrases) -> Progress:
        run = (*self.begun, token)
        for first in range(len(run)):
            rest = run[first:]
            for number, form in self.lacks(phrases):
                if form == rest:
                    return Progress((*self.met, number), whole=True)
            if any(form[: len(rest)] == rest for _, form in self.lacks(phrases)):
                return Progress(self.met, rest)
        return Progress(self.met)

    def next(self, phrases: Phrases) -> list[int]:
        begun = len(self.begun)
        return sorted({form[begun] for _, form in self.lacks(phrases) if form[:begun] == self.begun})


def progress_of(tokens: Sequence[int], phrases: Phrases) -> Progress:
    progress = Progress()
    for token in tokens:
        progress = progress.add(token, phrases)
    return progress


def places(width: int, candidates: Sequence[int]) -> list[int]:
    """How many places each bank has, by its number of candidates."""
    results = [width // len(candidates)] * len(candidates)
    if width < len(candidates):
        for place in range(width):
            results[place * (len(candidates) - 1) // max(width - 1, 1)] = 1
    else:
        results[-1] += width % len(candidates)
    for bank in reversed(range(len(candidates))):
        over = max(0, results[bank] - candidates[bank])
        results[bank] -= over
        results[bank - 1] += over
    return results


def candidates_of(
    beam: Beam,
    next_log_probs: NextLogProbs,
    options: SearchOptions,
    eos_id: int,
    prefix: tuple[int, ...],
    phrases: Phrases,
    joins: Sequence[int] = (),
) -> list[Beam]:
    """The candidates of a row: its best continuations, then the next tokens of phrases that are not among them."""
    progress = progress_of(beam.tokens, phrases)
    free = replace(options, max_children=None)
    everything = continuations(beam, next_log_probs, free, eos_id, prefix)
    results = everything[: min(max(2 * options.beam_size, 8), options.max_children or len(everything))]
    if progress.whole and len(beam.tokens) >= len(prefix):
        results = [after for after in results if after.tokens[-1] not in joins]
    last = options.forced_eos and len(beam.tokens) + 1 == options.max_length
    if len(beam.tokens) < len(prefix) or last:
        return results
    for token in progress.next(phrases):
        tokens = (*beam.tokens, token)
        if any(other.tokens == tokens for other in results):
            continue
        if next_log_probs(beam.tokens)[token] > -np.inf or repeats(tokens, options.no_repeat_ngram_size):
            results += [other for other in everything if other.tokens == tokens]
            continue
        value = float(np.float32(LEAST) * np.float32(options.repetition_penalty if token in beam.tokens else 1.0))
        results.append(Beam(tokens, (*beam.log_probs, LEAST), beam.total + value))
    return results


def sorted_into_banks(
    results: list[Beam], banks: int, top: float, options: SearchOptions, phrases: Phrases
) -> list[list[Beam]]:
    """The candidates of each bank that are above its thresholds, best first."""
    by_bank: list[list[Beam]] = [[] for _ in range(banks)]
    for beam in results:
        by_bank[progress_of(beam.tokens, phrases).tokens(phrases)].append(beam)
    margin, ratio = options.max_score_margin, options.max_score_ratio
    for bank, group in enumerate(by_bank):
        highest = max([beam.total for beam in group] + [top] * (bank == banks - 1), default=0.0)
        if margin is not None:
            by_bank[bank] = [beam for beam in group if beam.total >= highest - margin]
        if ratio is not None:
            by_bank[bank] = [beam for beam in by_bank[bank] if beam.total >= highest * ratio]
    return by_bank


def reference_phrases(
    next_log_probs: NextLogProbs,
    options: SearchOptions,
    eos_id: int,
    phrases: Phrases,
    prefix: tuple[int, ...] = (),
    joins: Sequence[int] = (),
) -> list[Beam]:
    """The answers of one request with phrases, best first, with eos; `joins` cannot follow a phrase."""
    banks = sum(max(map(len, forms)) for forms in phrases) + 1
    width = max(options.beam_size, min(banks, MOST_ROWS))
    kept = round(options.beam_size * options.patience)
    running, finished, lacking, top, longest = [Beam((), (), 0.0)], [], [], -np.inf, options.max_length
    for length in range(1, options.max_length + 1):
        common = next_log_probs, options, eos_id, prefix, phrases, joins
        results = [candidate for beam in running for candidate in candidates_of(beam, *common)]
        results.sort(key=lambda beam: -beam.total)
        by_bank = sorted_into_banks(results, banks, top, options, phrases)
        if by_bank[0] and by_bank[0][0].tokens[-1] == eos_id:
            longest = min(longest, length)
        counted = min(length, longest) if options.length_penalty > 0 else length
        before, running = running, []
        for bank, (group, most) in enumerate(zip(by_bank, places(width, [len(g) for g in by_bank]), strict=True)):
            ends = [beam for beam in group if beam.tokens[-1] == eos_id or length == options.max_length]
            running += [beam for beam in group if beam not in ends][:most]
            cut = bank == banks - 1 and length == options.max_length
            for beam in group[: max(most, options.beam_size) if cut else most]:
                if beam in ends:
                    beam.score = beam.total / counted**options.length_penalty
                    (finished if bank == banks - 1 else lacking).append(beam)
        running.sort(key=results.index)
        top = max([top, *(beam.total for beam in finished)])
        finished = sorted(finished, key=lambda beam: -beam.score)[:kept]
        if not running:
            break
        whole = [beam for beam in running if progress_of(beam.tokens, phrases).tokens(phrases) == banks - 1]
        best = [(running[0].total, length)]
        if options.early_stopping in ("true", "false"):
            best.append((whole[0].total if whole else -1e300, counted))
        if any(is_done(finished, top, *each, options) for each in best):
            break
    if finished:
        return finished[: options.num_hypotheses]
    if not lacking:
        for beam in before:
            beam.score = beam.total / max(length - 1, 1) ** options.length_penalty
        return sorted(before, key=lambda beam: -beam.score)[: options.num_hypotheses]
    lacking.sort(key=lambda beam: (-progress_of(beam.tokens, phrases).tokens(phrases), -beam.score))
    return lacking[: options.num_hypotheses]
