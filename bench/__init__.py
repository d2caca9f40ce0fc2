"""Benchmarks: they check, then time. `python -m bench` lists them; figures go to bench/results."""

import os

# One thread, for our workers and for the libraries, unless a benchmark asks for more by name. Read when NumPy and
# PyTorch are loaded, so it stands here.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Benchmarks name what they measure; those of the defaults take this away.
os.environ.setdefault("SHARPBEAM_EXACT", "1")
