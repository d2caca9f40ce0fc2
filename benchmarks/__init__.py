"""Benchmarks: they check, then time. `python -m benchmarks.decode --help`; figures go to benchmarks/results."""

import os

# One thread, for our workers and for the libraries, unless a benchmark asks for more by name. Read when NumPy and
# PyTorch are loaded, so it stands here.
os.environ.setdefault("OMP_NUM_THREADS", "1")
