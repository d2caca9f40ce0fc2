"""Fitting the preview of a model's output layer."""
