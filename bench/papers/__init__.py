"""The tables and figures of the five papers, one package for each paper."""
