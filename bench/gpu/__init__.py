"""Benchmarks that need a GPU; without one they say so."""
