"""Whole translations, timed against other engines."""
