"""Searches: which hypotheses live on; thin classes over csrc/search."""
