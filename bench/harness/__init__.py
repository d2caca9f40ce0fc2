"""What all benchmarks share: interleaved timing, result lines, test sets, kept files."""
