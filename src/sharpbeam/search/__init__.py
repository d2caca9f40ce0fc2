"""Candidates -> surviving rows: bookkeeping in NumPy on the host, without knowledge of models or output_layers."""
