"""Benchmarks: they check, then time. `python -m benchmarks.decode --help`; figures go to benchmarks/results."""
