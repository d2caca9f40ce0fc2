"""Benchmarks of single parts: matmuls, latency, load time, workers."""
