"""Readers of models: one for each family of checkpoints."""
