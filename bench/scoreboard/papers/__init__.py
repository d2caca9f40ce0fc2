"""The five papers to the letter: 38 rows, each against the paper's own claim, from the newest recorded figures.

The target is the paper's figure in the paper's own terms. What is measured on another model or corpus than the paper's
says so by that model's name; nothing here is measured anew (`python -m bench` lists what measures). A row that misses
says why where that was measured: what it cannot be faster than, or what its quality follows.
"""

from __future__ import annotations

from bench.scoreboard.papers import cube, cvp, l2s, sharp, stream

CLAIMS = [*l2s.ROWS, *cvp.ROWS, *cube.ROWS, *sharp.ROWS, *stream.ROWS]
