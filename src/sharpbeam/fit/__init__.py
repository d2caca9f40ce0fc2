"""Fitting of screens, shortlists and previews to a trained model."""
