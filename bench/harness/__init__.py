"""The common parts of all benchmarks: interleaved timing, result lines, test sets, kept files."""
