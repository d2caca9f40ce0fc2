"""The selection of csrc/search/selection.cpp in NumPy, written for reading: what it is tested against."""

from __future__ import annotations

import math

import numpy as np

from sharpbeam.options.decode import SearchOptions
from sharpbeam.search.ranking import rank
from sharpbeam.search.selection import Grown, Selected
from sharpbeam.search.stopping import Pool
from sharpbeam.types import Candidates, Rows


def select(
    options: SearchOptions, eos_id: int, keep: int, rows: Rows, found: Candidates, pools: list[Pool]
) -> Selected:
    """As `sharpbeam.search.selection.Selector.select`."""
    beam = options.beam_size
    first = np.append(0, (rows.request[1:] != rows.request[:-1]).nonzero()[0] + 1)  # [B]
    cell, score = rank(rows.score[:, None] + found.value, first, keep)  # [B, C]
    token = found.token.take(cell, mode="clip")
    last = rows.length[first] + 1 >= options.max_length  # [B]
    ends = (token == eos_id) | last[:, None]
    tops = np.array([pool.top for pool in pools]) if pools else np.full(len(first), -np.inf)
    floor = floors(options, np.maximum(tops, score[:, 0]))
    possible = (score > -math.inf) & (score >= floor[:, None])
    kept: list[bool] = []
    if options.finishing == "stay":
        for b, pool in enumerate(pools):
            places = possible[b].nonzero()[0]
            held = [i for i, finished in enumerate(pool.best) if finished.log_prob >= floor[b]]
            both = np.concatenate([[pool.best[i].log_prob for i in held], score[b, places]])
            chosen = (-both).argsort(kind="stable")[:beam]
            possible[b] = False
            possible[b, places[chosen[chosen >= len(held)] - len(held)]] = True
            staying = {held[i] for i in chosen[chosen < len(held)].tolist()}
            kept += [i in staying for i in range(len(pool))]
    lives = possible & ~ends
    lives &= lives.cumsum(axis=1) <= beam
    ended = possible & ends
    ended[:, beam:] = False
    best = np.where(lives, score, -math.inf).max(axis=1)  # [B]
    going, gone = (grown(rows, found, cell[mask], score[mask]) for mask in (lives, ended))
    return Selected(first, best, going, gone, np.array(kept, np.bool_))


def floors(options: SearchOptions, best: np.ndarray) -> np.ndarray:
    """The least sum of log probabilities that stays, [B], where `best` [B] are the highest ones."""
    floor = np.full(len(best), -np.inf)
    if options.max_score_margin is not None:
        floor = best - options.max_score_margin
    if options.max_score_ratio is not None:
        floor = np.maximum(floor, best * options.max_score_ratio)
    return floor


def grown(rows: Rows, found: Candidates, cell: np.ndarray, score: np.ndarray) -> Grown:
    """The candidates at `cell` [n], places in the flat [R, k], as rows."""
    parent = cell // found.token.shape[1]
    new = rows.select(parent)
    new.token, new.length, new.score = found.token.ravel()[cell], new.length + np.int32(1), score
    return Grown(cell, new, found.log_prob.ravel()[cell])
